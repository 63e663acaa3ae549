"""Old programs: what they use of Caffe2, whether it is there, and what it is called in tazza.

A program is read (`source`, `python2`), the names in it are found in its tree (`uses`), looked up among what the
package of the old names has (`old_names`) and set beside tazza's own (`own_names`). Nothing of it is ever executed.
"""
