// Runs ARX's local recoding for k-anonymity: java -cp ARX.jar _ArxRunner.java ADULT.csv HIERARCHIES OUT.csv K LEVEL QID…
// Prints, as JSON, the seconds of the call and the memory that it added; reading and writing are not counted. Rows keep
// their order and carry their number, so that suppressed ones can be told.

import java.io.BufferedWriter;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.deidentifier.arx.ARXAnonymizer;
import org.deidentifier.arx.ARXConfiguration;
import org.deidentifier.arx.ARXResult;
import org.deidentifier.arx.AttributeType;
import org.deidentifier.arx.AttributeType.Hierarchy;
import org.deidentifier.arx.Data;
import org.deidentifier.arx.DataHandle;
import org.deidentifier.arx.criteria.KAnonymity;
import org.deidentifier.arx.metric.Metric;

class _ArxRunner {
    public static void main(String[] words) throws Exception {
        String[] qid = Arrays.copyOfRange(words, 5, words.length);
        Set<String> asked = new HashSet<>(Arrays.asList(qid));
        Data data = Data.create(new File(words[0]), StandardCharsets.UTF_8, ',');
        DataHandle input = data.getHandle();
        for (int column = 0; column < input.getNumColumns(); column++) {
            String name = input.getAttributeName(column);
            if (asked.contains(name)) {
                File levels = new File(words[1], "adult_hierarchy_" + name + ".csv");
                data.getDefinition().setAttributeType(name, Hierarchy.create(levels, StandardCharsets.UTF_8, ';'));
            } else {
                data.getDefinition().setAttributeType(name, AttributeType.INSENSITIVE_ATTRIBUTE);
            }
        }
        ARXConfiguration asks = ARXConfiguration.create();
        asks.addPrivacyModel(new KAnonymity(Integer.parseInt(words[3])));
        asks.setSuppressionLimit(1d); // local recoding recodes what the first transformation suppresses
        asks.setQualityModel(Metric.createLossMetric(0d));

        long before = used();
        long started = System.nanoTime();
        ARXResult result = new ARXAnonymizer().anonymize(data, asks);
        DataHandle output = result.getOutput();
        if (result.isOptimizable(output)) {
            result.optimizeIterativeFast(output, 0.01d);
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        long added = Math.max(0, used() - before);

        try (BufferedWriter file = Files.newBufferedWriter(Path.of(words[2]))) {
            file.write(String.join(",", qid) + ",row\n");
            for (int row = 0; row < output.getNumRows(); row++) {
                if (!output.isOutlier(row)) {
                    for (String name : qid) {
                        file.write("\"" + output.getValue(row, output.getColumnIndexOf(name)) + "\",");
                    }
                    file.write(row + "\n");
                }
            }
        }
        System.out.println("{\"seconds\": " + seconds + ", \"added_bytes\": " + added + "}");
    }

    private static long used() {
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
