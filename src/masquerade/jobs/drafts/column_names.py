"""What the name of a column tells about it, in the larger European languages.

Names are compared as plain letters: `prénom`, `Prenom` and `PRENOM` are one word, `birthDate` and `birth_date` are two.
A language is a line of a list where it has words of its own: English, German, French, Spanish, Italian, Portuguese,
Dutch, Polish, Swedish, Danish and Norwegian, Finnish, Czech, Hungarian, Greek and Turkish in Latin letters.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

_UNLIKE = str.maketrans({"ß": "ss", "ø": "o", "ł": "l", "æ": "ae", "œ": "oe", "đ": "d", "ı": "i"})


def _listed(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


# What these are called identifies a person or reaches one, whatever the cells look like and however often they repeat.
_IDENTIFIES = _listed(
    """ssn nino nhs mrn email mail phone tel telephone mobile cellphone gsm fax iban bic uuid guid username login user
    url website homepage twitter facebook instagram skype whatsapp telegram handle nickname ip imei imsi vin
    numberplate licenceplate licenseplate passport password initials signature photo portrait street
    handy passwort kennwort ausweis reisepass personalausweis svnr kennzeichen unterschrift
    portable courriel passeport immatriculation rue nir adel
    movil celular correo pasaporte dni nie nif curp rut calle domicilio direccion
    cellulare passaporto targa indirizzo recapito
    telemovel passaporte cpf nif morada endereco rua cep
    mobiel paspoort bsn kenteken straat
    komorka paszport pesel nip ulica
    mobil pass passnummer regnr gata gatuadress
    cpr pasnummer fodselsnummer fnr gade vej
    puhelin matkapuhelin sahkoposti passi hetu henkilotunnus osoite katu
    mobilni rodnecislo ulice psobydliste bydliste
    taj telefonszam lakcim utca utlevel
    tilefono kinito diefthynsi odos amka afm
    tckn eposta adres sokak cadde pasaport"""
)
# Parts of one word in compounds: Telefonnummer, Emailadresse, Kundennummer. None of them is part of another word.
_IDENTIFYING_PARTS = _listed(
    """telefon telefoon telephon telefono telefone email emailadr adress address anschrift strasse passport reisepass
    socialsecurity nationalinsurance taxpayerid sozialversicherung versichertennummer versichertennr
    steuernummer steuerid codicefiscale codfisc securitesociale segurancasocial seguridadsocial
    personnummer personnumer personennummer personalnummer rijksregister burgerservice rodnecislo
    kontonummer kontonr accountnumber accountno rekeningnummer rekeningnr numerkonta bankkonto kreditkarte creditcard
    debitcard cardnumber cardno cartebancaire tarjeta kortnummer
    kundennummer kundennr kundenr kundnummer klantnummer klantnr mitgliedsnummer mitgliedsnr patientennummer patientennr
    patientnummer patientnr patid fallnummer matrikelnummer medlemsnummer asiakasnumero potilasnumero
    hausnummer hausnr housenumber huisnummer husnummer numerocivico
    licenceplate licenseplate numberplate registreringsnummer rekisterinumero driverslicen driverlicen drivinglicen
    fuhrerschein handynummer handynr mobilnummer mobilnr"""
)
# Names of people, in one word or two.
_PERSON_NAMES = _listed(
    """surname lastname firstname forename fullname givenname middlename maidenname familyname birthname
    nachname vorname familienname zuname rufname geburtsname madchenname
    prenom prenoms nomdefamille nomdenaissance patronyme
    nombres apellido apellidos primerapellido segundoapellido
    cognome nominativo cognomenome
    sobrenome apelido nomecompleto
    voornaam voornamen achternaam familienaam roepnaam
    imie imiona nazwisko
    fornamn efternamn tilltalsnamn
    fornavn efternavn etternavn mellomnavn
    etunimi sukunimi
    jmeno prijmeni
    keresztnev vezeteknev csaladnev utonev
    onoma eponymo onomateponymo
    soyad soyadi isim"""
)
# These alone, or with a word that is no thing's, are those of people: `name`, `patient_name`; not `product_name`.
_NAMES = _listed("name names nom noms nombre nome naam namn navn nimi nazwa nev ad adi")
_OF_THINGS = _listed(
    """product item brand model drug medication medicine device file table column field variable category event course
    school college university company employer organisation organization firm business hospital clinic ward department
    unit team project programme program plan disease diagnosis procedure test lab job occupation place area site class
    group service type kind source
    produkt artikel firma krankenhaus klinik station abteilung verein schule
    produit entreprise hopital service ecole producto empresa hospital prodotto azienda ospedale produto
    bedrijf ziekenhuis szpital sjukhus sairaala nemocnice korhaz hastane"""
)
# About another person, whom the cells may name where they are words: doctors and relatives are people, too.
PEOPLE = _listed(
    """kin nextofkin spouse husband wife mother father guardian doctor physician consultant gp nurse surgeon
    therapist manager supervisor advisor contact caseworker author owner holder applicant tenant landlord
    witness arzt hausarzt arztin ansprechpartner sachbearbeiter kontakt mutter vater ehepartner kontoinhaber
    medecin conjoint mere pere titulaire medico conyuge madre padre titular coniuge mae pai arts huisarts
    contactpersoon moeder vader lekarz kontakt matka ojciec lakare lege laege laakari lekar orvos doktor"""
)
# A person's kind of record, and the word for its number: together they identify.
_PERSONS = _listed(
    """patient person customer client member user employee student pupil participant subject proband insured subscriber
    citizen resident taxpayer voter policyholder beneficiary account card passport policy medicare medicaid licence
    license insurance driver staff personal
    patienten kunde kunden mitglied mitarbeiter konto karte versicherten fuhrerschein
    client adherent assure salarie compte carte paciente cliente empleado alumno cuenta paziente dipendente utente conto
    utente conta cartao klant medewerker rekening kaart pacjent klient konto kund medlem kort kunde
    potilas asiakas tili pacient zakaznik ucet paciens beteg ugyfel szamla hasta musteri hesap"""
)
_NUMBERS = _listed(
    """id ids key no nr num number nummer numero numer num cislo szam number hash code kod identifier identifiant
    identificador identificativo kennung tunnus"""
)
# These identify where nearly every row has its own.
MAY_IDENTIFY = _listed(
    """id ids key number no nr name names nummer numero numer account card patient person customer member record row
    index licence license konto karte compte cuenta conto conta rekening tili ucet szamla hesap plate"""
)
# Others know this of a person, or can look it up.
KNOWN_OF_PEOPLE = _listed(
    """age birth birthday birthdate birthplace born dob sex gender zip zipcode postcode postal city town village
    municipality district state province region county country nationality citizenship native race ethnic ethnicity
    colour marital married relationship children household education school degree occupation job profession employer
    workclass religion language height weight
    alter geburt geburtsdatum geburtstag geburtsjahr geburtsort geschlecht plz postleitzahl stadt ort wohnort gemeinde
    kreis landkreis bundesland land staatsangehorigkeit nationalitat familienstand kinder bildung ausbildung
    schulabschluss beruf sprache grosse gewicht konfession
    naissance sexe genre cp ville commune departement pays nationalite civil enfants etudes metier profession langue
    taille poids
    edad nacimiento sexo genero ciudad municipio localidad provincia pais nacionalidad hijos educacion estudios
    profesion ocupacion idioma
    eta nascita sesso genere cap citta comune paese nazionalita figli istruzione professione lingua
    idade nascimento cidade concelho municipio nacionalidade filhos escolaridade profissao
    leeftijd geboorte geboortedatum geslacht stad gemeente woonplaats provincie nationaliteit burgerlijke kinderen
    opleiding beroep taal
    wiek urodzenia plec pocztowy miasto miejscowosc wojewodztwo kraj narodowosc obywatelstwo cywilny dzieci
    wyksztalcenie zawod
    alder fodelse fodelsedatum kon postnummer postnr kommun medborgarskap civilstand barn utbildning yrke
    fodselsdato fodsel kjonn kommune statsborgerskab statsborgerskap sivilstand uddannelse utdanning erhverv
    ika syntyma syntymaaika sukupuoli postinumero kaupunki kunta maa kansalaisuus siviilisaaty lapset koulutus ammatti
    vek narozeni pohlavi psc mesto obec zeme narodnost obcanstvi rodinny vzdelani povolani
    kor szuletes szuletesi nem iranyitoszam varos telepules orszag allampolgarsag csaladi vegzettseg foglalkozas
    ilikia gennisi fylo poli chora yas dogum cinsiyet sehir ulke uyruk medeni egitim meslek"""
)
# Of a place, also where it is part of an address.
_PLACES = _listed(
    """zip zipcode postcode postal city town village state province region county country district municipality plz
    postleitzahl stadt ort bundesland land cp ville commune pays ciudad municipio provincia pais cap citta comune cidade
    stad gemeente woonplaats miasto kraj kommun postnr postnummer kommune kaupunki mesto psc varos sehir"""
)
# The digits of such a column are no number.
CODES = _listed(
    """zip zipcode postcode postal plz postleitzahl cp cap pocztowy postnummer postnr postinumero psc iranyitoszam code
    kod icd sic naics fips cpt"""
)
# Eight digits in such a column are a date.
DATES = _listed(
    """date day birth birthday birthdate dob born since when admitted discharged datum geburtsdatum geboortedatum
    naissance fecha nacimiento data nascita nascimento urodzenia fodelsedatum fodselsdato syntymaaika narozeni szuletes
    dogum tarih"""
)
# What was found to be wrong with somebody, and what is done about it.
_HEALTH = _listed(
    """disease diseases illness icd icd9 icd10 icd11 dx snomed hiv medication medications medicine drug drugs
    prescription treatment therapy comorbidity symptom symptoms
    krankheit erkrankung befund medikament medikamente medikation behandlung therapie
    maladie maladies pathologie traitement medicament medicaments
    enfermedad padecimiento tratamiento medicamento terapia
    malattia patologia trattamento farmaco doenca tratamento
    ziekte aandoening medicatie behandeling choroba leczenie lek sjukdom lakemedel sygdom sykdom medicin
    sairaus laake nemoc onemocneni lecba betegseg kezeles gyogyszer hastalik tani teshis ilac"""
)
_HEALTH_PARTS = ("diagnos", "diagnoz")
_SENSITIVE = _listed(
    """condition salary income wage religion politics party sexuality orientation offence crime debt score
    gehalt einkommen lohn konfession partei schulden salaire revenu salario ingresos sueldo reddito stipendio inkomen
    zarobki lon inkomst palkka plat fizetes maas"""
)
# People write into such a column what they like.
REMARKS = _listed(
    """note notes comment comments remark remarks memo description freetext narrative message history anamnesis letter
    bemerkung bemerkungen kommentar anmerkung freitext notiz anamnese remarque remarques commentaire observaciones
    observacion comentario nota notas osservazioni commento observacoes opmerking opmerkingen uwagi anteckning
    bemaerkning merknad huomautus poznamka poznamky megjegyzes aciklama"""
)


def folded(text: str) -> str:
    """Write a text in small letters without accents."""
    plain = unicodedata.normalize("NFKD", text.lower().translate(_UNLIKE))
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def _split(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-zà-ÿ0-9])(?=[A-ZÀ-Þ])", " ", name)
    return [word for word in re.split(r"[^a-z0-9]+", folded(spaced)) if word]


def words_of(name: str) -> set[str]:
    """The words of a column's name: `birthDate`, `birth_date` and `Birth date` are birth and date.

    Neighbours, and all of them, count as one word, too: `last name` is lastname.
    """
    words = _split(name)
    pairs = {first + second for first, second in pairwise(words)}
    bare = {word.rstrip("0123456789") for word in words}  # phone2
    return {*words, *pairs, *bare, "".join(words)} - {""}


def has_word(name: str, among: frozenset[str]) -> bool:
    """Return whether a word of a column's name is among these."""
    return not among.isdisjoint(words_of(name))


def names_people(name: str) -> bool:
    """Return whether a column of this name holds people's names, if its cells are words."""
    words = words_of(name)
    if words & _PERSON_NAMES:
        return True
    return bool(words & _NAMES) and not words & (_OF_THINGS | KNOWN_OF_PEOPLE)


def always_identifies(name: str) -> bool:
    """Return whether what a column of this name holds identifies people, or reaches them, by itself."""
    words = words_of(name)
    if words & _PLACES:
        words = {word for word in words if "adr" not in word and "addr" not in word}
        words -= {"email"} if "email" not in _split(name) else set()
    if words & _IDENTIFIES or any(part in word for word in words for part in _IDENTIFYING_PARTS):
        return True
    alone = set(_split(name))
    return bool(alone & _PERSONS and alone & _NUMBERS) or (bool(alone) and alone <= {"id", "ids", "account"})


def is_about_health(name: str) -> bool:
    """Return whether such a column holds diagnoses, or what is done about them."""
    words = words_of(name)
    return bool(words & _HEALTH) or any(part in word for word in words for part in _HEALTH_PARTS)


def sounds_sensitive(name: str) -> bool:
    """Return whether people mind that others learn this."""
    return bool(words_of(name) & _SENSITIVE) or is_about_health(name)
