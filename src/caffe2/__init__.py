"""The import names of Caffe2, for scripts written for it. All of them lead to tazza, which new code imports itself."""
