"""What is asked, what each party answers, and what all of them sign."""
