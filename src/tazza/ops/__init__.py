"""Operator families: schema, infer, cost, gradient and reference kernel of each; imported through the index."""
