import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** J1 on Kafka Streams. Its DSL has no window of so many records, so this is a processor with a state store (RocksDB,
 *  changelog, record cache; with transactions of its own if BENCH_STATE is `transactional`). A state is number, sum,
 *  maximum, and when the group was opened. A punctuator ends groups of BENCH_AFTER seconds; in this time it reads all
 *  of them sixty times. */
public class J1 {
    static final long COUNT = Long.parseLong(given("COUNT"));
    static final int STATE = 4 * Long.BYTES;
    static final Duration AFTER = Duration.ofSeconds(Long.parseLong(given("AFTER"))), LOOK = AFTER.dividedBy(60);
    static final AtomicBoolean FIRST = new AtomicBoolean();

    @JsonIgnoreProperties(ignoreUnknown = true)
    public static class Order { public long amount; }

    static class Fold implements Processor<String, byte[], String, byte[]> {
        final ObjectReader reader = new ObjectMapper().readerFor(Order.class);
        ProcessorContext<String, byte[]> context;
        KeyValueStore<String, byte[]> store;

        @Override public void init(ProcessorContext<String, byte[]> given) {
            context = given;
            store = given.getStateStore("groups");
            given.schedule(LOOK, PunctuationType.WALL_CLOCK_TIME, this::expire);
        }

        @Override public void process(Record<String, byte[]> record) {
            if (!FIRST.get() && FIRST.compareAndSet(false, true)) first();
            long amount, count = 1, sum, most, opened;
            try {
                amount = reader.<Order>readValue(record.value()).amount;
            } catch (IOException error) {
                throw new RuntimeException(error);
            }
            byte[] before = store.get(record.key());
            if (before == null) {
                sum = most = amount;
                opened = context.currentSystemTimeMs();
            } else {
                ByteBuffer state = ByteBuffer.wrap(before);
                count += state.getLong();
                sum = state.getLong() + amount;
                most = Math.max(state.getLong(), amount);
                opened = state.getLong();
            }
            if (count < COUNT) {
                byte[] now = ByteBuffer.allocate(STATE).putLong(count).putLong(sum).putLong(most).putLong(opened).array();
                store.put(record.key(), now);
            } else {
                store.delete(record.key());
                context.forward(record.withValue(result(record.key(), count, sum, most)));
            }
        }

        void expire(long now) {
            List<KeyValue<String, byte[]>> due = new ArrayList<>();
            try (KeyValueIterator<String, byte[]> all = store.all()) {
                while (all.hasNext()) {
                    KeyValue<String, byte[]> each = all.next();
                    if (ByteBuffer.wrap(each.value).getLong(3 * Long.BYTES) + AFTER.toMillis() <= now) due.add(each);
                }
            }
            for (KeyValue<String, byte[]> each : due) {
                ByteBuffer state = ByteBuffer.wrap(each.value);
                byte[] value = result(each.key, state.getLong(), state.getLong(), state.getLong());
                store.delete(each.key);
                context.forward(new Record<>(each.key, value, now));
            }
        }

        static byte[] result(String key, long count, long sum, long most) {
            String text = "{\"key\":\"" + key + "\",\"n\":" + count + ",\"sum\":" + sum + ",\"max\":" + most + "}";
            return text.getBytes(StandardCharsets.UTF_8);
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

    public static void main(String[] arguments) {
        say("\"worker.started\"", "");
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, given("GROUP"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given("BOOTSTRAP"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, given("FOLDER"));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, given("THREADS"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, given("GUARANTEE"));
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, given("COMMIT"));
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64L * 1024 * 1024);
        settings.put(StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG, given("STATE").equals("transactional"));
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("groups"), Serdes.String(), Serdes.ByteArray())
                .withCachingEnabled());
        builder.stream(given("TOPIC"), Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .process(Fold::new, "groups")
            .to(given("OUT"), Produced.with(Serdes.String(), Serdes.ByteArray()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) say("\"loop.assigned\"", "");
        });
        streams.start();
    }
}
