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
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * What an outer join of Kafka Streams says: a log on each line of the input, its answer on each line of the output.
 *
 * <p>A log is `DIFFERENCE TIME:KEY:LEG ...` with times in ms; LEG is 0 or 1. The grace drops nothing. The answer is
 * `INDEX:INDEX ...`: the records of each result by their index in the log, -1 where a leg is absent.
 */
public final class Joins {
  private static final Duration GRACE = Duration.ofMillis(500_000);

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "joins");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
    settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("joins").toString());
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      System.out.println(answer(line.split(" "), settings));
    }
  }

  private static String answer(String[] words, Properties settings) {
    List<String> results = new ArrayList<>();
    try (TopologyTestDriver driver = new TopologyTestDriver(topology(words[0]), settings)) {
      List<TestInputTopic<String, String>> legs = new ArrayList<>();
      for (String leg : List.of("0", "1")) {
        legs.add(driver.createInputTopic(leg, new StringSerializer(), new StringSerializer()));
      }
      var output = driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer());
      for (int index = 1; index < words.length; index++) {
        String[] record = words[index].split(":");
        driver.advanceWallClockTime(Duration.ofSeconds(5));
        legs.get(Integer.parseInt(record[2])).pipeInput(record[1], String.valueOf(index - 1), Long.parseLong(record[0]));
      }
      output.readKeyValuesToList().forEach(each -> results.add(each.value));
    }
    return String.join(" ", results);
  }

  private static Topology topology(String difference) {
    Duration after = Duration.ofMillis(Long.parseLong(difference));
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, String> left = builder.stream("0", Consumed.with(Serdes.String(), Serdes.String()));
    KStream<String, String> right = builder.stream("1", Consumed.with(Serdes.String(), Serdes.String()));
    StreamJoined<String, String, String> stores =
        StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String())
            .withThisStoreSupplier(store("left", after))
            .withOtherStoreSupplier(store("right", after));
    left.outerJoin(
            right,
            (one, other) -> (one == null ? "-1" : one) + ":" + (other == null ? "-1" : other),
            JoinWindows.ofTimeDifferenceAndGrace(after, GRACE),
            stores)
        .to("out", Produced.with(Serdes.String(), Serdes.String()));
    return builder.build();
  }

  private static WindowBytesStoreSupplier store(String name, Duration after) {
    Duration size = after.multipliedBy(2);
    return Stores.inMemoryWindowStore(name, size.plus(GRACE), size, true);
  }
}
