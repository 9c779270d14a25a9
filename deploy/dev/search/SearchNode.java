import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** One OpenSearch node on 127.0.0.1: HOME HTTP_PORT TRANSPORT_PORT. Started as it is, without a build. */
public final class SearchNode {
  /** The server's own start refuses root and wants an installation; a node needs neither. */
  private static final class Single extends Node {
    Single(Environment environment) {
      super(environment, List.of(Netty4Plugin.class), false);
    }
  }

  public static void main(String[] args) throws Exception {
    Path home = Path.of(args[0]);
    Settings settings =
        Settings.builder()
            .put("path.home", home.toString())
            .put("path.data", home.resolve("data").toString())
            .put("cluster.name", "dev")
            .put("node.name", "dev")
            .put("node.processors", 2)
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", args[1])
            .put("transport.port", args[2])
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
    Node node = new Single(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home, () -> "dev"));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
    node.start();
    System.out.println("started");
    Thread.currentThread().join();
  }

  private static void close(Node node) {
    try {
      node.close();
    } catch (java.io.IOException error) {
      error.printStackTrace();
    }
  }
}
