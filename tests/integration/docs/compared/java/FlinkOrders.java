import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The function of docs/compare/flink.md between a source and a sink of Kafka, on a cluster in this process. Arguments:
 *  the broker, the topic of orders, and that of baskets. */
public class FlinkOrders {
    static final ObjectMapper JSON = new ObjectMapper();

    static class Decoder implements KafkaRecordDeserializationSchema<Baskets.Order> {
        @Override public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Baskets.Order> orders)
                throws IOException {
            Baskets.Order order = new Baskets.Order();
            order.customer = new String(record.key(), StandardCharsets.UTF_8);
            order.amount = JSON.readTree(record.value()).get("amount").asDouble();
            orders.collect(order);
        }

        @Override public TypeInformation<Baskets.Order> getProducedType() {
            return TypeInformation.of(Baskets.Order.class);
        }
    }

    /** Lambdas in their places have no types that Flink finds. */
    static class Customer implements SerializationSchema<Baskets.Basket> {
        @Override public byte[] serialize(Baskets.Basket basket) {
            return basket.customer.getBytes(StandardCharsets.UTF_8);
        }
    }

    static class Json implements SerializationSchema<Baskets.Basket> {
        @Override public byte[] serialize(Baskets.Basket basket) {
            try {
                return JSON.writeValueAsBytes(basket);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        KafkaSource<Baskets.Order> orders = KafkaSource.<Baskets.Order>builder()
            .setBootstrapServers(arguments[0])
            .setTopics(arguments[1])
            .setGroupId(arguments[1])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setDeserializer(new Decoder())
            .build();
        KafkaSink<Baskets.Basket> baskets = KafkaSink.<Baskets.Basket>builder()
            .setBootstrapServers(arguments[0])
            .setRecordSerializer(KafkaRecordSerializationSchema.<Baskets.Basket>builder()
                .setTopic(arguments[2])
                .setKeySerializationSchema(new Customer())
                .setValueSerializationSchema(new Json())
                .build())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(arguments[2])
            .setProperty("transaction.timeout.ms", "600000")
            .build();
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(1);
        flink.enableCheckpointing(500);
        Baskets.of(flink.fromSource(orders, WatermarkStrategy.noWatermarks(), "orders")).sinkTo(baskets);
        flink.execute("baskets");
    }
}
