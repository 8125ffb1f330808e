/** Prints the CPU count from which a JVM also chooses the sizes of its garbage collector, compiler and thread pools. */
public class CPUs {
    public static void main(String[] args) {
        System.out.println(Runtime.getRuntime().availableProcessors());
    }
}
