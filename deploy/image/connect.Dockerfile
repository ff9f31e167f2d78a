# Kafka Connect with Debezium's connector for Postgres: Kafka's own image, the plugin from Debezium's.
#   docker build -f deploy/image/connect.Dockerfile -t rajada-connect:0.1.0 .
FROM quay.io/debezium/connect:3.6.1.Final AS debezium

FROM apache/kafka:4.1.1
COPY --from=debezium /kafka/connect/debezium-connector-postgres /opt/connect/plugins/debezium-connector-postgres
COPY deploy/connect/worker.properties /opt/connect/worker.properties
CMD ["/opt/kafka/bin/connect-distributed.sh", "/opt/connect/worker.properties"]
