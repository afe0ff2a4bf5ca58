import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.LocalDate;
import java.time.ZoneId;

/** For each line "ZONE FIRST LAST" the seconds since 1970 at which these days begin; days are counted from 1970. */
public class Midnights {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            StringBuilder answer = new StringBuilder();
            ZoneId zone = ZoneId.of(words[0]);
            for (long day = Long.parseLong(words[1]); day <= Long.parseLong(words[2]); day++) {
                answer.append(LocalDate.ofEpochDay(day).atStartOfDay(zone).toEpochSecond()).append(' ');
            }
            System.out.println(answer);
        }
    }
}
