"""Builders of known nets, under their old names; models that lie as folders of two nets can be imported from here."""

from caffe2.python.models._folders import install

install()
