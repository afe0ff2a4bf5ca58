import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** J1 on Flink: a keyed process function with one value of state a key (number, sum, maximum, and when the group ends),
 *  and a timer of processing time for groups that stay smaller. The state is on the heap or in RocksDB. Objects are
 *  reused, records are decoded in the source, and the sink commits its transactions with the checkpoints. It runs in
 *  one process, as a local cluster. */
public class FlinkJ1 {
    static final long COUNT = Long.parseLong(given("COUNT")), AFTER = 1000 * Long.parseLong(given("AFTER"));
    static final AtomicBoolean FIRST = new AtomicBoolean();
    static final TypeInformation<Tuple2<String, Long>> PAIR = Types.TUPLE(Types.STRING, Types.LONG);
    static final TypeInformation<Tuple4<Long, Long, Long, Long>> STATE =
        Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.LONG);

    @JsonIgnoreProperties(ignoreUnknown = true)
    public static class Order { public long amount; }

    static class Decoder implements KafkaRecordDeserializationSchema<Tuple2<String, Long>> {
        transient ObjectReader reader;

        @Override public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<String, Long>> out)
                throws IOException {
            if (!FIRST.get() && FIRST.compareAndSet(false, true)) first();
            if (reader == null) reader = new ObjectMapper().readerFor(Order.class);
            long amount = reader.<Order>readValue(record.value()).amount;
            out.collect(Tuple2.of(new String(record.key(), StandardCharsets.UTF_8), amount));
        }

        @Override public TypeInformation<Tuple2<String, Long>> getProducedType() { return PAIR; }
    }

    static class Fold extends KeyedProcessFunction<String, Tuple2<String, Long>, Tuple2<String, String>> {
        transient ValueState<Tuple4<Long, Long, Long, Long>> group;

        @Override public void open(OpenContext context) {
            group = getRuntimeContext().getState(new ValueStateDescriptor<>("group", STATE));
            say("\"loop.assigned\"", "");
        }

        @Override public void processElement(
                Tuple2<String, Long> order, Context context, Collector<Tuple2<String, String>> out) throws IOException {
            long amount = order.f1;
            Tuple4<Long, Long, Long, Long> state = group.value();
            boolean opened = state == null;
            if (opened) {
                state = Tuple4.of(1L, amount, amount, 0L);
            } else {
                state.f0 += 1;
                state.f1 += amount;
                if (amount > state.f2) state.f2 = amount;
            }
            if (state.f0 >= COUNT) {
                if (!opened) {
                    context.timerService().deleteProcessingTimeTimer(state.f3);
                    group.clear();
                }
                out.collect(result(context.getCurrentKey(), state));
                return;
            }
            if (opened) {
                state.f3 = context.timerService().currentProcessingTime() + AFTER;
                context.timerService().registerProcessingTimeTimer(state.f3);
            }
            group.update(state);
        }

        @Override public void onTimer(long now, OnTimerContext context, Collector<Tuple2<String, String>> out)
                throws IOException {
            Tuple4<Long, Long, Long, Long> state = group.value();
            if (state == null || state.f3 != now) return;
            group.clear();
            out.collect(result(context.getCurrentKey(), state));
        }

        static Tuple2<String, String> result(String key, Tuple4<Long, Long, Long, Long> state) {
            String text = "{\"key\":\"" + key + "\",\"n\":" + state.f0 + ",\"sum\":" + state.f1;
            return Tuple2.of(key, text + ",\"max\":" + state.f2 + "}");
        }
    }

    /** One text of a result, as bytes. */
    static class Text implements SerializationSchema<Tuple2<String, String>> {
        final int place;

        Text(int place) { this.place = place; }

        @Override public byte[] serialize(Tuple2<String, String> result) {
            return result.<String>getField(place).getBytes(StandardCharsets.UTF_8);
        }
    }

    static void first() {
        long cpu = ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
        say("\"loop.first\"", ",\"at\":" + System.nanoTime() / 1e9 + ",\"cpu\":" + cpu / 1e9);
    }

    static void say(String event, String more) {
        System.err.println("{\"event\":" + event + ",\"pid\":" + ProcessHandle.current().pid() + more + "}");
    }

    static String given(String name) { return System.getenv("BENCH_" + name); }

    static Configuration settings() {
        Configuration settings = new Configuration();
        settings.set(PipelineOptions.OBJECT_REUSE, true);
        settings.set(StateBackendOptions.STATE_BACKEND, given("STATE"));
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, "file://" + given("FOLDER") + "/checkpoints");
        settings.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        settings.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, given("STATE").equals("rocksdb"));
        settings.setString("state.backend.rocksdb.timer-service.factory", "HEAP");
        settings.setString("state.backend.rocksdb.localdir", given("FOLDER") + "/rocksdb");
        settings.setString("io.tmp.dirs", given("FOLDER"));
        settings.setString("taskmanager.memory.managed.size", "256m");
        settings.setString("taskmanager.numberOfTaskSlots", given("THREADS"));
        return settings;
    }

    public static void main(String[] arguments) throws Exception {
        say("\"worker.started\"", "");
        int threads = Integer.parseInt(given("THREADS"));
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(threads, settings());
        flink.enableCheckpointing(Long.parseLong(given("COMMIT")), CheckpointingMode.EXACTLY_ONCE);
        KafkaSource<Tuple2<String, Long>> source = KafkaSource.<Tuple2<String, Long>>builder()
            .setBootstrapServers(given("BOOTSTRAP"))
            .setTopics(given("TOPIC"))
            .setGroupId(given("GROUP"))
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setDeserializer(new Decoder())
            .build();
        KafkaSink<Tuple2<String, String>> sink = KafkaSink.<Tuple2<String, String>>builder()
            .setBootstrapServers(given("BOOTSTRAP"))
            .setRecordSerializer(KafkaRecordSerializationSchema.<Tuple2<String, String>>builder()
                .setTopic(given("OUT"))
                .setKeySerializationSchema(new Text(0))
                .setValueSerializationSchema(new Text(1))
                .build())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(given("GROUP"))
            .setTransactionNamingStrategy(TransactionNamingStrategy.POOLING)
            .setProperty("transaction.timeout.ms", "600000")
            .build();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "orders")
            .keyBy(order -> order.f0, Types.STRING)
            .process(new Fold(), Types.TUPLE(Types.STRING, Types.STRING))
            .sinkTo(sink);
        flink.execute("J1");
    }
}
