"""The servers of a new app, as services of docker-compose.yml."""

HEAD = "# Servers for development, on this machine only: docker compose up --wait\nservices:\n"
KAFKA = """\
  kafka:
    image: apache/kafka:4.2.1
    ports: ["127.0.0.1:9092:9092"]
    environment:
      CLUSTER_ID: MkU3OEVBNTcwNTJENDM2Qg
      KAFKA_NODE_ID: "1"
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@localhost:9093
      KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092,INSIDE://0.0.0.0:19092,CONTROLLER://localhost:9093
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:9092,INSIDE://kafka:19092
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT
      KAFKA_INTER_BROKER_LISTENER_NAME: INSIDE
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false"
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: "1"
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: "1"
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: "1"
      KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR: "1"
      KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR: "1"
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: "0"
      KAFKA_LOG_DIRS: /var/lib/kafka/data
    volumes: ["kafka:/var/lib/kafka/data"]
    healthcheck:
      test: ["CMD", "/opt/kafka/bin/kafka-broker-api-versions.sh", "--bootstrap-server", "localhost:9092"]
      interval: 5s
      timeout: 10s
      retries: 20
"""
REDIS = """\
  redis:
    image: redis:8
    command:
      - redis-server
      - --appendonly
      - "yes"
      - --appendfsync
      - always
      - --maxmemory-policy
      - noeviction
      - --save
      - ""
    ports: ["127.0.0.1:6379:6379"]
    volumes: ["redis:/data"]
    healthcheck:
      test: ["CMD", "redis-cli", "ping"]
      interval: 2s
      timeout: 3s
      retries: 20
"""
MONGODB = """\
  mongodb:
    image: mongo:8.0
    command: ["mongod", "--replSet", "rs0", "--bind_ip_all"]
    ports: ["127.0.0.1:27017:27017"]
    volumes: ["mongodb:/data/db"]
    healthcheck:
      # The first check makes the replica set (transactions need one); healthy means primary.
      test:
        - CMD
        - mongosh
        - --quiet
        - --eval
        - >-
          try { rs.status() } catch (error) { rs.initiate({_id: "rs0", members: [{_id: 0, host: "localhost:27017"}]}) };
          quit(db.hello().isWritablePrimary ? 0 : 1)
      interval: 2s
      timeout: 10s
      retries: 20
"""
POSTGRES = """\
  postgres:
    image: postgres:18
    environment:
      POSTGRES_USER: sluicegate
      POSTGRES_PASSWORD: sluicegate
      POSTGRES_DB: sluicegate
    ports: ["127.0.0.1:5432:5432"]
    volumes: ["postgres:/var/lib/postgresql"]
    healthcheck:
      test: ["CMD", "pg_isready", "--username", "sluicegate", "--dbname", "sluicegate"]
      interval: 2s
      timeout: 3s
      retries: 20
"""
MARIADB = """\
  mariadb:
    image: mariadb:11.4
    environment:
      MARIADB_USER: sluicegate
      MARIADB_PASSWORD: sluicegate
      MARIADB_DATABASE: sluicegate
      MARIADB_RANDOM_ROOT_PASSWORD: "1"
    ports: ["127.0.0.1:3306:3306"]
    volumes: ["mariadb:/var/lib/mysql"]
    healthcheck:
      test: ["CMD", "healthcheck.sh", "--connect", "--innodb_initialized"]
      interval: 2s
      timeout: 5s
      retries: 30
"""
SERVICES = {"redis": REDIS, "mongodb": MONGODB, "postgres": POSTGRES, "mariadb": MARIADB}


def text(store: str | None) -> str:
    """Kafka, and the server of a store unless it needs none."""
    services = {"kafka": KAFKA} | ({store: SERVICES[store]} if store else {})
    volumes = "".join(f"  {name}:\n" for name in services)
    return HEAD + "\n".join(services.values()) + "\nvolumes:\n" + volumes
