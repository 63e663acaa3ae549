"""Parameters of models: what makes them, what they are for, which are shared; and what is added to nets afterwards."""
