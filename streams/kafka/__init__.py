"""Apache Kafka as the bus of a mesh: sends, reads, topics and checks. A node's own data stream is Faust's."""
