"""Predictions by the million: images in folders and databases, on several processes, in parts that outlive them.

What there is to predict is cut into parts (`source`). Workers, processes of their own, each predict one part after the
other and leave it as a file (`part`, `worker`); a crew of them hands out parts, replaces who dies, and has the part
done anew (`crew`). When all parts are there they are joined, in order, to one file of results (`results`). A run that
was ended goes on with the parts that it finds (`run`). Nothing is lost and nothing comes twice, since a part is a file
that appears whole, under a name that only it has.
"""
