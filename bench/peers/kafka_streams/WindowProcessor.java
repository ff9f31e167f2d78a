import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.UUID;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Windows anchored at a conversation's first event, closed by event time, in one record per contact.
 *
 * A window is over when a later event of the partition says so. When events are as young as the clock, or none
 * came for half a minute, the clock says so too: a punctuation closes what is past its deadline.
 */
final class WindowProcessor implements Processor<String, byte[], String, byte[]> {
    static final String JOBS = "jobs";
    static final String OUTCOMES = "outcomes";
    private static final UUID JOB_NAMESPACE = UUID.fromString("5d2f7e0a-9f4c-5b1e-8a37-0c6f1d3b9e42");
    private static final String EVENT_TYPE = "ai_agent.dispatch_requested";
    private static final int MAX_EVENTS = 100;
    private static final long LIVE_MS = 2_000;
    private static final long IDLE_MS = 30_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    @JsonIgnoreProperties(ignoreUnknown = true)
    record Row(String id, @JsonProperty("organization_id") String organizationId,
               @JsonProperty("event_type") String eventType, String payload) {}

    @JsonIgnoreProperties(ignoreUnknown = true)
    record Payload(@JsonProperty("conversation_id") String conversationId,
                   @JsonProperty("contact_id") String contactId,
                   @JsonProperty("channel_session_id") String sessionId,
                   @JsonProperty("inbound_message_id") String messageId) {}

    record Event(String id, String messageId, String sessionId, long timeMs) {}

    record Window(String conversationId, long deadlineMs, List<Event> events) {}

    record Contact(List<Window> windows) {}

    private record Due(long deadlineMs, String key, String conversationId) {}

    private final long windowMs;
    private final Duration punctuation;
    private final PriorityQueue<Due> open = new PriorityQueue<>(Comparator.comparingLong(Due::deadlineMs));
    private ProcessorContext<String, byte[]> context;
    private KeyValueStore<String, byte[]> contacts;
    private long newestMs;
    private long lastArrivalMs;
    private boolean live;

    WindowProcessor(long windowMs, Duration punctuation) {
        this.windowMs = windowMs;
        this.punctuation = punctuation;
    }

    @Override
    public void init(ProcessorContext<String, byte[]> given) {
        context = given;
        contacts = given.getStateStore(WindowApp.STORE);
        try (KeyValueIterator<String, byte[]> all = contacts.all()) {
            while (all.hasNext()) {
                KeyValue<String, byte[]> one = all.next();
                for (Window window : read(one.value, Contact.class).windows()) {
                    open.add(new Due(window.deadlineMs(), one.key, window.conversationId()));
                }
            }
        }
        lastArrivalMs = System.currentTimeMillis();
        given.schedule(punctuation, PunctuationType.WALL_CLOCK_TIME, this::tick);
    }

    @Override
    public void process(Record<String, byte[]> record) {
        long now = System.currentTimeMillis();
        long timeMs = Math.min(timeOf(record), now);
        Row row = read(record.value(), Row.class);
        if (EVENT_TYPE.equals(row.eventType())) {
            take(record.key(), row, timeMs);
        }
        newestMs = Math.max(newestMs, timeMs);
        lastArrivalMs = now;
        live = now - timeMs < LIVE_MS;
        close(newestMs, now);
    }

    private void take(String key, Row row, long timeMs) {
        Payload payload = read(row.payload().getBytes(StandardCharsets.UTF_8), Payload.class);
        byte[] known = contacts.get(key);
        Contact contact = known == null ? new Contact(new ArrayList<>()) : read(known, Contact.class);
        Event event = new Event(row.id(), payload.messageId(), payload.sessionId(), timeMs);
        long reachedMs = Math.max(timeMs, newestMs);
        Window found = null;
        for (Window window : contact.windows()) {
            if (!window.conversationId().equals(payload.conversationId())) {
                continue;
            }
            for (Event member : window.events()) {
                if (member.id().equals(event.id())) {
                    return;
                }
            }
            if (found == null && reachedMs <= window.deadlineMs() && window.events().size() < MAX_EVENTS) {
                found = window;
            }
        }
        if (found == null) {
            found = new Window(payload.conversationId(), timeMs + windowMs, new ArrayList<>());
            contact.windows().add(found);
            open.add(new Due(found.deadlineMs(), key, found.conversationId()));
        }
        found.events().add(event);
        contacts.put(key, write(contact));
    }

    private void tick(long now) {
        if (live || now - lastArrivalMs > IDLE_MS) {
            close(now, now);
        }
    }

    private void close(long reachedMs, long now) {
        while (!open.isEmpty() && open.peek().deadlineMs() < reachedMs) {
            Due due = open.poll();
            byte[] known = contacts.get(due.key());
            if (known == null) {
                continue;
            }
            Contact contact = read(known, Contact.class);
            Window window = null;
            for (Window one : contact.windows()) {
                if (one.conversationId().equals(due.conversationId()) && one.deadlineMs() == due.deadlineMs()) {
                    window = one;
                    break;
                }
            }
            if (window == null) {
                continue;
            }
            send(due.key(), window, now);
            contact.windows().remove(window);
            contacts.put(due.key(), contact.windows().isEmpty() ? null : write(contact));
        }
    }

    private void send(String key, Window window, long now) {
        String organizationId = key.substring(0, key.indexOf(':'));
        String contactId = key.substring(key.indexOf(':') + 1);
        Map<String, Object> job = job(organizationId, contactId, window, now);
        context.forward(new Record<>(key, write(job), now), JOBS);
        context.forward(new Record<>(key, write(outcome(organizationId, contactId, window, job, now)), now), OUTCOMES);
    }

    private static Map<String, Object> job(String organizationId, String contactId, Window window, long now) {
        Event first = window.events().get(0);
        Event newest = window.events().get(window.events().size() - 1);
        List<String> ids = new ArrayList<>();
        List<Map<String, Object>> events = new ArrayList<>();
        for (Event event : window.events()) {
            ids.add(event.id());
            events.add(Map.of("event_id", event.id(), "replay", 0));
        }
        Map<String, Object> payload = new LinkedHashMap<>();
        payload.put("conversation_id", window.conversationId());
        payload.put("contact_id", contactId);
        payload.put("channel_session_id", newest.sessionId());
        payload.put("inbound_message_id", newest.messageId());
        payload.put("crm_event_id", first.id());
        payload.put("event_ids", ids);
        Map<String, Object> job = new LinkedHashMap<>();
        job.put("id", named(JOB_NAMESPACE, organizationId + ":" + first.id()).toString());
        job.put("organization_id", organizationId);
        job.put("contact_id", contactId);
        job.put("kind", "inbound_turn");
        job.put("source_event_id", first.id());
        job.put("seq", 1);
        job.put("created_at_ms", now);
        job.put("run_after_ms", now);
        job.put("payload", new String(write(payload), StandardCharsets.UTF_8));
        job.put("events", events);
        return job;
    }

    private static Map<String, Object> outcome(
            String organizationId, String contactId, Window window, Map<String, Object> job, long now) {
        List<Map<String, Object>> events = new ArrayList<>();
        Map<String, String> messages = new LinkedHashMap<>();
        for (Event event : window.events()) {
            events.add(Map.of("event_id", event.id(), "replay", 0, "seq", 0, "attempts", 1));
            messages.put(event.id(), event.messageId());
        }
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("conversation_id", window.conversationId());
        facts.put("messages", messages);
        facts.put("opened_ms", window.events().get(0).timeMs());
        facts.put("deadline_ms", window.deadlineMs());
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("organization_id", organizationId);
        outcome.put("contact_id", contactId);
        outcome.put("at_ms", now);
        outcome.put("stage", "decide");
        outcome.put("events", events);
        outcome.put("status", "done");
        outcome.put("outcome", "job");
        outcome.put("job_id", job.get("id"));
        outcome.put("facts", new String(write(facts), StandardCharsets.UTF_8));
        outcome.put("job", job);
        outcome.put("job_status", "pending");
        return outcome;
    }

    private static long timeOf(Record<String, byte[]> record) {
        Header header = record.headers().lastHeader("cdc_source_ts_ms");
        return header == null
            ? record.timestamp()
            : Long.parseLong(new String(header.value(), StandardCharsets.US_ASCII));
    }

    /** A UUID of version 5 (RFC 9562, 5.5). */
    private static UUID named(UUID space, String name) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-1");
            digest.update(ByteBuffer.allocate(16).putLong(space.getMostSignificantBits())
                .putLong(space.getLeastSignificantBits()).array());
            ByteBuffer hash = ByteBuffer.wrap(digest.digest(name.getBytes(StandardCharsets.UTF_8)));
            long most = (hash.getLong() & ~0xf000L) | 0x5000L;
            long least = (hash.getLong() & 0x3fffffffffffffffL) | 0x8000000000000000L;
            return new UUID(most, least);
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    private static <T> T read(byte[] value, Class<T> kind) {
        try {
            return JSON.readValue(value, kind);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static byte[] write(Object value) {
        try {
            return JSON.writeValueAsBytes(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
