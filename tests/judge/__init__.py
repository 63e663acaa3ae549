"""The judge: random problems, drawn from the schemas, for laws over all operators, engines and net types."""
