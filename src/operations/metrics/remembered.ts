/** Asks at most once in so many milliseconds and gives all the same answer meanwhile, a failure too; whoever asks while it is asked waits for that. */
export function remembered<T>(forMs: number, ask: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined;
  let until = 0;
  return () => {
    const now = performance.now();
    if (answer && now < until) return answer;
    until = Infinity; // until it is known how long that is
    answer = ask().finally(() => (until = performance.now() + forMs));
    return answer;
  };
}
