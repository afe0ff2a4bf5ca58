import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * What Kafka Streams decides about windows: a log on each line of the input, its answer on each line of the output.
 *
 * <p>A log is `KIND SIZE ADVANCE GRACE TIME:KEY:AMOUNT ...` with times in ms; KIND is `window` or `session`, and SIZE of
 * a session is its gap. The answer is `INDEX ... | KEY:START:END:COUNT:SUM ...`: the indexes of the records that were
 * dropped as late, then the windows that closed, in the order of closing.
 */
public final class Windows {
  private static final Duration KEPT = Duration.ofDays(10_000);

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "windows");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
    settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("windows").toString());
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      System.out.println(answer(line.split(" "), settings));
    }
  }

  private static String answer(String[] words, Properties settings) {
    List<String> late = new ArrayList<>();
    List<String> closed = new ArrayList<>();
    try (TopologyTestDriver driver = new TopologyTestDriver(topology(words), settings)) {
      var input = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
      var output = driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer());
      for (int index = 4; index < words.length; index++) {
        String[] record = words[index].split(":");
        double before = dropped(driver);
        input.pipeInput(record[1], record[2], Long.parseLong(record[0]));
        if (dropped(driver) > before) {
          late.add(String.valueOf(index - 4));
        }
      }
      output.readKeyValuesToList().forEach(each -> closed.add(each.key + ":" + each.value));
    }
    return String.join(" ", late) + " | " + String.join(" ", closed);
  }

  private static double dropped(TopologyTestDriver driver) {
    return driver.metrics().entrySet().stream()
        .filter(each -> each.getKey().name().equals("dropped-records-total"))
        .mapToDouble(each -> (double) each.getValue().metricValue())
        .sum();
  }

  private static Topology topology(String[] words) {
    Duration size = Duration.ofMillis(Long.parseLong(words[1]));
    Duration advance = Duration.ofMillis(Long.parseLong(words[2]));
    Duration grace = Duration.ofMillis(Long.parseLong(words[3]));
    StreamsBuilder builder = new StreamsBuilder();
    KGroupedStream<String, String> keyed =
        builder.stream("in", Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
    KTable<Windowed<String>, String> table =
        words[0].equals("session") ? sessions(keyed, size, grace) : windows(keyed, size, advance, grace);
    table
        .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
        .toStream((window, value) -> window.key() + ":" + window.window().start() + ":" + window.window().end())
        .to("out", Produced.with(Serdes.String(), Serdes.String()));
    return builder.build();
  }

  private static KTable<Windowed<String>, String> windows(
      KGroupedStream<String, String> keyed, Duration size, Duration advance, Duration grace) {
    Materialized<String, String, WindowStore<Bytes, byte[]>> store =
        Materialized.<String, String>as(Stores.inMemoryWindowStore("store", KEPT, size, false))
            .withKeySerde(Serdes.String())
            .withValueSerde(Serdes.String());
    return keyed
        .windowedBy(TimeWindows.ofSizeAndGrace(size, grace).advanceBy(advance))
        .aggregate(() -> "0:0", (key, amount, sum) -> plus(sum, "1:" + amount), store);
  }

  private static KTable<Windowed<String>, String> sessions(
      KGroupedStream<String, String> keyed, Duration gap, Duration grace) {
    Materialized<String, String, SessionStore<Bytes, byte[]>> store =
        Materialized.<String, String>as(Stores.inMemorySessionStore("store", KEPT))
            .withKeySerde(Serdes.String())
            .withValueSerde(Serdes.String());
    return keyed
        .windowedBy(SessionWindows.ofInactivityGapAndGrace(gap, grace))
        .aggregate(
            () -> "0:0", (key, amount, sum) -> plus(sum, "1:" + amount), (key, one, other) -> plus(one, other), store);
  }

  /** Adds `COUNT:SUM` and `COUNT:SUM`. */
  private static String plus(String one, String other) {
    String[] left = one.split(":");
    String[] right = other.split(":");
    return (Long.parseLong(left[0]) + Long.parseLong(right[0]))
        + ":"
        + (Long.parseLong(left[1]) + Long.parseLong(right[1]));
  }
}
