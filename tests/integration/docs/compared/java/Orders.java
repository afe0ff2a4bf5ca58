import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.DoubleSerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.TopologyTestDriver;

/** 101 orders of a customer, then 31 seconds without one, in the topology of docs/compare/kafka-streams.md. */
class Orders {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("application.id", "shop");
        settings.put("bootstrap.servers", "none:1");
        try (TopologyTestDriver driver = new TopologyTestDriver(Shop.topology(), settings)) {
            var orders = driver.createInputTopic("orders", new StringSerializer(), new DoubleSerializer());
            for (int number = 0; number < 101; number++) {
                orders.pipeInput("ann", 2.0);
            }
            driver.advanceWallClockTime(Duration.ofSeconds(31));
            var baskets = driver.createOutputTopic("baskets", new StringDeserializer(), new StringDeserializer());
            baskets.readValuesToList().forEach(System.out::println);
        }
    }
}
