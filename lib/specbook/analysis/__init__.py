"""What records say. In: run records. Out: tidy tables; nothing is measured or drawn here."""
