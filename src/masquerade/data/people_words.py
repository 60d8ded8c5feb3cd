"""The vocabulary of the generated people: names, towns, jobs and so on, with their taxonomies and job file.

The people are fictitious: first and last names are drawn independently from two short lists.
"""

from __future__ import annotations

FEMALE = (
    "Ada", "Alma", "Amira", "Beatrix", "Carla", "Celia", "Dora", "Elena", "Emma", "Fatima", "Grace",
    "Hanna", "Ines", "Iris", "Julia", "Klara", "Leila", "Lena", "Maria", "Mila", "Nadia", "Nora", "Olga",
    "Petra", "Rosa", "Sara", "Sofia", "Tessa", "Vera", "Zoe",
)  # fmt: skip
MALE = (
    "Adam", "Anton", "Boris", "Carlo", "Daniel", "David", "Emil", "Enzo", "Felix", "Georg", "Hugo", "Ivan",
    "Jakob", "Jonas", "Karim", "Leo", "Luca", "Marco", "Milan", "Nils", "Omar", "Oscar", "Pablo", "Paul",
    "Robin", "Samuel", "Stefan", "Theo", "Victor", "Yusuf",
)  # fmt: skip
LAST = (
    "Abel", "Adler", "Bauer", "Becker", "Bianchi", "Blanc", "Bruno", "Carter", "Costa", "Dubois", "Ferrari",
    "Fischer", "Fontaine", "Gallo", "Garnier", "Haas", "Hahn", "Keller", "Kaya", "Lambert", "Lang", "Leroy",
    "Marino", "Martin", "Meyer", "Moreau", "Morel", "Neri", "Novak", "Petit", "Ricci", "Rossi", "Roux",
    "Sala", "Schmidt", "Serra", "Simon", "Stein", "Vogel", "Weber", "Weiss", "Winter", "Wolf", "Zimmer",
)  # fmt: skip

# Each town: its share of the people in tenths of a percent, and its wages in percent of the average.
TOWNS = {
    "Lyon": (70, 105), "Grenoble": (30, 100), "Annecy": (20, 110), "Paris": (150, 125),
    "Versailles": (25, 130), "Rennes": (35, 90), "Brest": (25, 80), "Munich": (90, 125),
    "Augsburg": (25, 105), "Nuremberg": (35, 100), "Berlin": (120, 95), "Potsdam": (20, 90),
    "Cologne": (65, 105), "Bonn": (30, 110), "Milan": (80, 105), "Bergamo": (25, 90), "Brescia": (25, 85),
    "Rome": (60, 75), "Naples": (30, 55), "Luxembourg": (40, 150),
}  # fmt: skip

# Each education: its share in tenths of a percent, and its level, on which jobs and salaries depend.
EDUCATIONS = {
    "No-schooling": (30, 0), "Primary": (90, 1), "Lower-secondary": (170, 2), "Upper-secondary": (230, 3),
    "Apprenticeship": (200, 3), "Bachelor": (150, 5), "Master": (95, 6), "Doctorate": (35, 7),
}  # fmt: skip

# Each job: the level of education it requires, its salary in thousands a year, and the hours of its week.
JOBS = {
    "Manager": (5, 72, 46), "Lawyer": (6, 80, 48), "Physician": (7, 88, 52), "Teacher": (5, 44, 38),
    "Engineer": (5, 58, 41), "Accountant": (4, 46, 40), "Clerk": (3, 33, 38), "Salesperson": (3, 32, 39),
    "Nurse": (4, 38, 40), "Electrician": (3, 37, 41), "Mechanic": (3, 35, 41), "Welder": (2, 33, 42),
    "Baker": (2, 28, 44), "Cook": (1, 25, 43), "Driver": (1, 27, 45), "Cleaner": (0, 20, 30),
    "Farmhand": (0, 21, 47), "Student": (3, 7, 12), "Retired": (0, 18, 0),
}  # fmt: skip

# Each disease: its weight in tenths of a percent for the young, the middle-aged and the old.
DISEASES = {
    "Flu": (330, 230, 140), "Asthma": (170, 100, 60), "Allergy": (200, 120, 50), "Migraine": (120, 130, 50),
    "Depression": (100, 120, 70), "Hypertension": (20, 110, 200), "Diabetes": (20, 70, 130),
    "Arthritis": (15, 60, 160), "Cancer": (10, 35, 80), "HIV": (15, 25, 60),
}  # fmt: skip

TAXONOMIES = {
    "town.csv": """\
Paris;Ile-de-France;France;Any-town
Versailles;Ile-de-France;France;Any-town
Lyon;Rhone-Alpes;France;Any-town
Grenoble;Rhone-Alpes;France;Any-town
Annecy;Rhone-Alpes;France;Any-town
Rennes;Brittany;France;Any-town
Brest;Brittany;France;Any-town
Berlin;Brandenburg;Germany;Any-town
Potsdam;Brandenburg;Germany;Any-town
Munich;Bavaria;Germany;Any-town
Augsburg;Bavaria;Germany;Any-town
Nuremberg;Bavaria;Germany;Any-town
Cologne;Rhineland;Germany;Any-town
Bonn;Rhineland;Germany;Any-town
Milan;Lombardy;Italy;Any-town
Bergamo;Lombardy;Italy;Any-town
Brescia;Lombardy;Italy;Any-town
Rome;Italy;Any-town
Naples;Italy;Any-town
Luxembourg;Any-town
""",
    "education.csv": """\
No-schooling;No-secondary;Any-education
Primary;No-secondary;Any-education
Lower-secondary;Secondary;Any-education
Upper-secondary;Completed-secondary;Secondary;Any-education
Apprenticeship;Completed-secondary;Secondary;Any-education
Bachelor;University;Any-education
Master;Postgraduate;University;Any-education
Doctorate;Postgraduate;University;Any-education
""",
    "job.yaml": """\
Any-job:
  At-work:
    White-collar:
      Professional: [Lawyer, Physician, Engineer, Teacher]
      Business: [Manager, Accountant]
      Service: [Nurse, Clerk, Salesperson]
    Blue-collar:
      Skilled: [Electrician, Mechanic, Welder, Baker, Cook]
      Unskilled: [Driver, Cleaner, Farmhand]
  Not-at-work: [Student, Retired]
""",
    "hours.csv": """\
[0, 10);[0, 20);Less-than-full;Any-hours
[10, 20);[0, 20);Less-than-full;Any-hours
[20, 35);Less-than-full;Any-hours
[35, 40);Full-time;Any-hours
[40, 45);Full-time;Any-hours
[45, 60);Overtime;Any-hours
[60, 100);Overtime;Any-hours
""",
}

JOB = """\
# Generated people, released so that nobody is singled out and a bank still learns who gets a loan.
# Run it with: masquerade anonymize job.toml

[data]
source = "people.csv"
missing = "drop"                        # rows with an empty or "?" cell in a used column are left out

# What is released, and how it may be generalised. Columns that are not listed (name, children) are left out.
[attributes.birth_date]
type = "date"                           # intervals of dates; where they are cut is chosen from the data

[attributes.sex]
taxonomy = "flat"                       # released as it is, or as "*"

[attributes.town]
taxonomy = "taxonomies/town.csv"        # rows town;region;country;root, of unequal depth

[attributes.job]
taxonomy = "taxonomies/job.yaml"        # a nested tree

[attributes.education]
taxonomy = "taxonomies/education.csv"

[attributes.hours]
type = "continuous"
taxonomy = "taxonomies/hours.csv"       # fixed intervals

[attributes.salary]
type = "continuous"                     # in thousands a year
min = 0                                 # the outer ends of the released intervals
max = 1000

[roles]
class = "approved"                      # the release should still predict this
sensitive = ["disease"]                 # released, and protected by l-diversity below
identifiers = ["ssn"]                   # never released

# A neighbour knows somebody's birthday, sex and town: at least 10 people share what is released of them ...
[[privacy]]
model = "k-anonymity"
qid = ["birth_date", "sex", "town"]
k = 10

# ... and do not all have the same few diseases.
[[privacy]]
model = "l-diversity"
qid = ["birth_date", "sex", "town"]
sensitive = "disease"
l = 3

# Their employer knows this about them.
[[privacy]]
model = "k-anonymity"
qid = ["job", "education", "hours", "salary"]
k = 10

[algorithm]
name = "tds"                            # top-down specialization
score = "info-gain"

[output]
table = "release.csv"
report = "report.html"
"""
