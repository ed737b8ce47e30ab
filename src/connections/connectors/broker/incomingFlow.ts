/** What bounds the messages that are under way. */
export interface IncomingFlowOptions {
  /** No more is read while so many messages are under way, or so many bytes of them. */
  readonly mostMessages: number;
  readonly mostBytes: number;
  /** Called every so many milliseconds while nothing is read. */
  readonly breathe: () => void;
  readonly breatheMs: number;
}

/** How much of what came in is being worked on; the broker must wait while it is too much. */
export class IncomingFlow {
  private messages = 0;
  private bytes = 0;
  private mayHold = false;
  private held: (() => void) | undefined;
  private breathing: NodeJS.Timeout | undefined;
  private readonly waiting = new Set<() => void>();

  constructor(private readonly options: IncomingFlowOptions) {}

  /** Whether nothing is read, so that what the broker answers waits too. */
  get isHeld(): boolean {
    return this.held !== undefined;
  }

  /**
   * From now on the broker may have to wait. Not before it has answered the SUBSCRIBE: with a session that it kept, that answer stands behind
   * all that waited there, and what came before it is not worked on until then.
   */
  begin(): void {
    this.mayHold = true;
  }

  /** Works on a message of so many bytes; `next` is called when another one may be read. The work must not reject. */
  async pass(bytes: number, work: () => Promise<void>, next: () => void): Promise<void> {
    this.messages += 1;
    this.bytes += bytes;
    const working = work();
    if (this.isFull) this.hold(next);
    else next();
    await working;
    this.messages -= 1;
    this.bytes -= bytes;
    if (!this.isFull) this.release();
    if (this.messages === 0) for (const resolve of this.waiting) resolve();
  }

  /** Resolves when nothing is under way, or at the limit. */
  async idle(limitMs: number): Promise<void> {
    if (this.messages === 0) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(end, limitMs);
      this.waiting.add(end);
    });
  }

  /** The connection is over. */
  end(): void {
    clearInterval(this.breathing);
  }

  private get isFull(): boolean {
    return this.mayHold && (this.messages >= this.options.mostMessages || this.bytes >= this.options.mostBytes);
  }

  private hold(next: () => void): void {
    this.held = next;
    this.breathing = setInterval(this.options.breathe, this.options.breatheMs);
  }

  private release(): void {
    const { held } = this;
    if (!held) return;
    this.held = undefined;
    clearInterval(this.breathing);
    held();
  }
}
