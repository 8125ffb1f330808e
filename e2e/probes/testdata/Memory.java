// Prints the memory of the machine in bytes, as the JVM's management interface reports it.
import java.lang.management.ManagementFactory;

class Memory {
    public static void main(String[] args) {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        System.out.println(system.getTotalMemorySize());
    }
}
