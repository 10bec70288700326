// A game in Java that Entitize trains and plays, over a WebSocket (docs/protocol.md). Java 11 or newer, without libraries:
//
//     entitize train --listen 127.0.0.1:7000 --run runs/chase --ppo.total-timesteps 5_000
//     java examples/Chase.java ws://127.0.0.1:7000      (in several terminals: several games)
//
// Chasers on a line of cells run after mice. Their numbers change from game to game, and each chaser has a decision of its own.

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

public class Chase {
    static final String HELLO = "{\"type\": \"hello\", \"protocol\": 1, \"spaces\": {"
        + "\"entities\": {\"Chaser\": [\"x\"], \"Mouse\": [\"x\"]},"
        + "\"actions\": {\"move\": {\"kind\": \"Categorical\", \"choices\": [\"LEFT\", \"RIGHT\"]}}}}";
    static final int CELLS = 20, STEPS = 30;

    public static void main(String[] arguments) throws Exception {
        Agent agent = new Agent(arguments.length > 0 ? arguments[0] : "ws://127.0.0.1:7000");
        Random random = new Random();
        List<Integer> scores = new ArrayList<>();
        while (play(agent, random)) scores.add(score);
        int part = scores.size() / 5;
        System.out.printf("%d games, mean score of the first fifth %.2f, of the last %.2f%n", scores.size(),
            mean(scores.subList(0, part)), mean(scores.subList(scores.size() - part, scores.size())));
    }

    static double mean(List<Integer> values) {
        return values.stream().mapToInt(Integer::intValue).average().orElse(0);
    }

    static int score;  // mice that were caught in this game

    // Plays one game; returns false if the trainer ended.
    static boolean play(Agent agent, Random random) throws Exception {
        List<Integer> chasers = new ArrayList<>(), mice = new ArrayList<>();
        for (int i = 1 + random.nextInt(3); i > 0; i--) chasers.add(random.nextInt(CELLS));
        for (int i = 1 + random.nextInt(5); i > 0; i--) mice.add(random.nextInt(CELLS));
        score = 0;
        for (int step = 0; step < STEPS && !mice.isEmpty(); step++) {
            String answer = agent.ask("{\"type\": \"observe\", \"score\": " + score
                + ", \"entities\": {\"Chaser\": " + rows(chasers) + ", \"Mouse\": " + rows(mice) + "}"
                + ", \"actions\": {\"move\": {\"actor_types\": [\"Chaser\"]}}}");
            if (answer == null) return false;
            int[] choices = choices(answer);
            for (int i = 0; i < chasers.size(); i++)
                chasers.set(i, Math.floorMod(chasers.get(i) + (choices[i] == 0 ? -1 : 1), CELLS));
            int before = mice.size();
            mice.removeIf(chasers::contains);
            score += before - mice.size();
        }
        agent.send("{\"type\": \"game_over\", \"score\": " + score + ", \"truncated\": " + !mice.isEmpty() + "}");
        return true;
    }

    static String rows(List<Integer> positions) {
        return positions.stream().map(x -> "[" + x + "]").collect(Collectors.joining(", ", "[", "]"));
    }

    // Of {"type": "act", "actions": {"move": {"actors": [0, 1], "choices": [1, 0], …}}}, without a library for JSON.
    static int[] choices(String answer) {
        Matcher found = Pattern.compile("\"choices\": ?\\[([^\\]]*)\\]").matcher(answer);
        if (!found.find()) throw new IllegalStateException(answer);  // an error, which says what is wrong
        return Pattern.compile(", ?").splitAsStream(found.group(1)).mapToInt(Integer::parseInt).toArray();
    }
}

/** The connection: one question at a time. */
class Agent implements WebSocket.Listener {
    private static final String END = "";
    private final BlockingQueue<String> answers = new LinkedBlockingQueue<>();
    private final StringBuilder parts = new StringBuilder();
    private final WebSocket socket;

    Agent(String url) throws Exception {
        socket = HttpClient.newHttpClient().newWebSocketBuilder().buildAsync(URI.create(url), this).join();
        if (ask(Chase.HELLO) == null) throw new IllegalStateException("the trainer has ended");
    }

    /** Sends a message and waits for its answer; null if the trainer ended. */
    String ask(String message) throws Exception {
        send(message);
        String answer = answers.take();
        return answer.equals(END) ? null : answer;
    }

    void send(String message) {
        try {
            if (!socket.isOutputClosed()) socket.sendText(message, true).join();
        } catch (CompletionException error) {
            // closed meanwhile, as onClose or onError tells
        }
    }

    @Override
    public CompletionStage<?> onText(WebSocket socket, CharSequence part, boolean isLast) {
        parts.append(part);
        if (isLast) {
            answers.add(parts.toString());
            parts.setLength(0);
        }
        socket.request(1);
        return null;
    }

    @Override
    public CompletionStage<?> onClose(WebSocket socket, int code, String reason) {
        answers.add(END);
        if (code != 1001) System.err.println(code + " " + reason);  // 1001: the training is over
        return null;
    }

    @Override
    public void onError(WebSocket socket, Throwable error) {
        answers.add(END);
        System.err.println(error);
    }
}
