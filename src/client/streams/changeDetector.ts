/** The encoder of a message type. */
interface Encoder<Message> {
  encode(message: Message): { finish(): Uint8Array };
}

/** Detects messages that differ from the last message with the same id. */
export class ChangeDetector<Message> {
  private readonly lastMessages = new Map<string, Uint8Array>();

  constructor(private readonly type: Encoder<Message>) {}

  /** Stores the message and returns true, unless it is equal to the last one with this id. */
  storeIfNew(id: string, message: Message): boolean {
    const bytes = this.type.encode(message).finish();
    const last = this.lastMessages.get(id);
    if (last && areSame(last, bytes)) return false;
    this.lastMessages.set(id, bytes);
    return true;
  }

  /** Forgets an id. Returns false if it is unknown. */
  forget(id: string): boolean {
    return this.lastMessages.delete(id);
  }

  /** Lists the known ids. */
  ids(): string[] {
    return [...this.lastMessages.keys()];
  }
}

/** Whether two messages have the same bytes. */
function areSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
