import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;

/** Kafka Streams' own windowed count, one final result of each window (suppress until the window closes). Its stores,
 *  cache and commits are those of J1.java. */
public class WindowedCount {
    static final AtomicBoolean FIRST = new AtomicBoolean();

    static void first() {
        long cpu = ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
        say("\"loop.first\"", ",\"at\":" + System.nanoTime() / 1e9 + ",\"cpu\":" + cpu / 1e9);
    }

    static void say(String event, String more) {
        System.err.println("{\"event\":" + event + ",\"pid\":" + ProcessHandle.current().pid() + more + "}");
    }

    static String given(String name) { return System.getenv("BENCH_" + name); }

    static KTable<Windowed<String>, Long> counted(KGroupedStream<String, byte[]> keyed) {
        Duration size = Duration.ofMillis(Long.parseLong(given("SIZE")));
        if (given("KIND").equals("session")) {
            return keyed.windowedBy(SessionWindows.ofInactivityGapWithNoGrace(size)).count();
        }
        Duration advance = Duration.ofMillis(Long.parseLong(given("ADVANCE")));
        return keyed.windowedBy(TimeWindows.ofSizeWithNoGrace(size).advanceBy(advance)).count();
    }

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
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, byte[]> keyed =
            builder.stream(given("TOPIC"), Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .peek((key, value) -> { if (!FIRST.get() && FIRST.compareAndSet(false, true)) first(); })
                .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()));
        counted(keyed)
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream()
            .map((key, count) -> KeyValue.pair(key.key(), "{\"key\":\"" + key.key() + "\",\"n\":" + count + ",\"start\":"
                + key.window().start() + "}"))
            .to(given("OUT"), Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
