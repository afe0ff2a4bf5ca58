import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.temporal.ChronoUnit;
import java.util.Base64;
import java.util.Collection;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/** Of each line, which is writer's schema, reader's schema and datum in base64 with tabs between them: the record as JSON in the forms of
 * docs/formats.md, a tab, and the record written again with the reader's schema, in base64. */
public class Resolved {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            Schema writer = new Schema.Parser().parse(parts[0]);
            Schema reader = new Schema.Parser().parse(parts[1]);
            byte[] datum = Base64.getDecoder().decode(parts[2]);
            Object record = new GenericDatumReader<Object>(writer, reader)
                    .read(null, DecoderFactory.get().binaryDecoder(datum, null));
            ByteArrayOutputStream again = new ByteArrayOutputStream();
            BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(again, null);
            new GenericDatumWriter<Object>(reader).write(record, encoder);
            encoder.flush();
            out.println(json(reader, record) + "\t" + Base64.getEncoder().encodeToString(again.toByteArray()));
        }
        out.flush();
    }

    static String json(Schema schema, Object value) {
        switch (schema.getType()) {
            case UNION:
                return json(schema.getTypes().get(GenericData.get().resolveUnion(schema, value)), value);
            case RECORD:
                return schema.getFields().stream()
                        .map(f -> text(f.name()) + ":" + json(f.schema(), ((IndexedRecord) value).get(f.pos())))
                        .collect(Collectors.joining(",", "{", "}"));
            case ARRAY:
                return ((Collection<?>) value).stream().map(item -> json(schema.getElementType(), item))
                        .collect(Collectors.joining(",", "[", "]"));
            case MAP:
                return ((Map<?, ?>) value).entrySet().stream()
                        .map(e -> text(e.getKey().toString()) + ":" + json(schema.getValueType(), e.getValue()))
                        .collect(Collectors.joining(",", "{", "}"));
            case BYTES:
                ByteBuffer buffer = ((ByteBuffer) value).duplicate();
                byte[] bytes = new byte[buffer.remaining()];
                buffer.get(bytes);
                return bytes(schema.getLogicalType(), bytes);
            case FIXED:
                return bytes(schema.getLogicalType(), ((GenericFixed) value).bytes());
            case INT:
            case LONG:
                return number(schema.getLogicalType(), ((Number) value).longValue());
            case FLOAT:
            case DOUBLE:
                return Double.toString(((Number) value).doubleValue());
            case STRING:
            case ENUM:
                return text(value.toString());
            default:
                return String.valueOf(value);
        }
    }

    static String bytes(LogicalType type, byte[] bytes) {
        if (type instanceof LogicalTypes.Decimal) {
            return text(new BigDecimal(new BigInteger(bytes), ((LogicalTypes.Decimal) type).getScale()).toString());
        }
        return text(Base64.getEncoder().encodeToString(bytes));
    }

    static String number(LogicalType type, long value) {
        switch (type == null ? "" : type.getName()) {
            case "date":
                return text(LocalDate.ofEpochDay(value).toString());
            case "time-millis":
                return text(instant(value, ChronoUnit.MILLIS).substring(11, instant(value, ChronoUnit.MILLIS).length() - 1));
            case "time-micros":
                return text(instant(value, ChronoUnit.MICROS).substring(11, instant(value, ChronoUnit.MICROS).length() - 1));
            case "timestamp-millis":
                return text(instant(value, ChronoUnit.MILLIS));
            case "timestamp-micros":
                return text(instant(value, ChronoUnit.MICROS));
            case "local-timestamp-millis":
                return text(instant(value, ChronoUnit.MILLIS).replace("Z", ""));
            case "local-timestamp-micros":
                return text(instant(value, ChronoUnit.MICROS).replace("Z", ""));
            default:
                return Long.toString(value);
        }
    }

    static String instant(long value, ChronoUnit unit) {
        return Instant.EPOCH.plus(value, unit).toString();
    }

    static String text(String value) {
        StringBuilder made = new StringBuilder("\"");
        for (char c : value.toCharArray()) {
            made.append(c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return made.append('"').toString();
    }
}
