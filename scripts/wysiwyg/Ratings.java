import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Means of films' ratings, grouped in memory by parallel streams: a thread for each CPU that the JVM sees, and garbage for its collector. */
public class Ratings {
    record Rating(int film, double stars) {}

    public static void main(String[] args) {
        int rounds = args.length > 0 ? Integer.parseInt(args[0]) : 6;
        double sum = 0;
        for (int round = 0; round < rounds; round++) {
            int seed = round;
            Map<Integer, Double> means = IntStream.range(0, 1_000_000).parallel()
                .mapToObj(i -> { var r = new SplittableRandom(seed * 1_000_000L + i); return new Rating(r.nextInt(5000), 1 + 4 * r.nextDouble()); })
                .collect(Collectors.groupingByConcurrent(Rating::film, Collectors.averagingDouble(Rating::stars)));
            sum += means.values().stream().mapToDouble(Double::doubleValue).sum();
        }
        System.out.println(Math.round(sum));
    }
}
