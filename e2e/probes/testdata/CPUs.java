/** What a JVM says, by which it also sizes its collector, compiler and pools. */
public class CPUs {
    public static void main(String[] args) {
        System.out.println(Runtime.getRuntime().availableProcessors());
    }
}
