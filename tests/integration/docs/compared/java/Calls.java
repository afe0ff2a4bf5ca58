import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.UnaryOperator;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The program of docs/compare/parallel-consumer.md, with a system that refuses order 1 once. Argument: the broker. */
class Calls {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> reading = Map.of(
            "bootstrap.servers", arguments[0], "group.id", "calls-" + arguments[1],
            "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        Map<String, Object> writing = Map.of("bootstrap.servers", arguments[0]);
        AtomicBoolean failed = new AtomicBoolean();
        UnaryOperator<String> system = order -> {
            if (order.contains(": 1}") && !failed.getAndSet(true)) {
                throw new IllegalStateException("the system refuses it");
            }
            return order;
        };
        var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
        Enter.start(consumer, producer, system);
        Thread.currentThread().join();
    }
}
