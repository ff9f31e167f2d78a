import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.state.Stores;

/**
 * The main path's work in Kafka Streams: events of a topic, windows by contact, a job and an outcome each.
 *
 * Started with the variables that bench/peers/kafka_streams.py sets; runs until SIGTERM. Everything that is
 * not set here is Kafka Streams' default, among it RocksDB with a changelog for the state.
 */
public final class WindowApp {
    static final String STORE = "contacts";

    private WindowApp() {}

    public static void main(String[] arguments) throws Exception {
        boolean tuned = setting("TUNED").equals("1");
        KafkaStreams streams = new KafkaStreams(topology(tuned), properties(tuned));
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                ready();
            } else if (now == KafkaStreams.State.ERROR) {
                ended.countDown();
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
        ended.await();
        System.exit(1);
    }

    private static Topology topology(boolean tuned) {
        long windowMs = Long.parseLong(setting("WINDOW_MS"));
        Duration punctuation = tuned ? Duration.ofMillis(10) : Duration.ofSeconds(1);
        Topology topology = new Topology();
        topology.addSource("events", setting("SOURCE"));
        topology.addProcessor("windows", () -> new WindowProcessor(windowMs, punctuation), "events");
        topology.addStateStore(
            Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.ByteArray()),
            "windows");
        topology.addSink(WindowProcessor.JOBS, setting("JOBS"), "windows");
        topology.addSink(WindowProcessor.OUTCOMES, setting("OUTCOMES"), "windows");
        return topology;
    }

    private static Properties properties(boolean tuned) {
        Properties set = new Properties();
        set.put(StreamsConfig.APPLICATION_ID_CONFIG, setting("APPLICATION"));
        set.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, setting("BOOTSTRAP"));
        set.put(StreamsConfig.STATE_DIR_CONFIG, setting("STATE"));
        set.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, setting("GUARANTEE"));
        set.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        set.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        // what every participant of the comparison is given: how soon a dead one is noticed, where to begin,
        // nothing read that was not committed, records that must not be lost
        set.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6_000);
        set.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 2_000);
        set.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        set.put(StreamsConfig.consumerPrefix(ConsumerConfig.ISOLATION_LEVEL_CONFIG), "read_committed");
        set.put(StreamsConfig.producerPrefix(ProducerConfig.ACKS_CONFIG), "all");
        if (tuned) {
            set.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 0);
            set.put(StreamsConfig.POLL_MS_CONFIG, 10);
        }
        return set;
    }

    private static void ready() {
        try {
            Path note = Path.of(setting("READY"));
            Path draft = note.resolveSibling("ready.new");
            Files.writeString(draft, Long.toString(System.currentTimeMillis()));
            Files.move(draft, note, java.nio.file.StandardCopyOption.ATOMIC_MOVE);
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static String setting(String name) {
        String value = System.getenv("PEER_" + name);
        if (value == null) {
            throw new IllegalStateException("PEER_" + name + " is not set");
        }
        return value;
    }
}
