"""Records by the million through readers, queues and stages on threads: none is lost, none comes twice."""
