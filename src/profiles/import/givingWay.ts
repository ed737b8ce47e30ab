/** Gives others a turn. Rejects with the reason of its signal once that is aborted. */
export type GiveWay = () => Promise<void>;

/** A turn of the event loop, in which signals of the process are heard too. */
export function givingWay(signal: AbortSignal | undefined): GiveWay {
  return async () => {
    await new Promise((resolve) => setImmediate(resolve));
    signal?.throwIfAborted();
  };
}
