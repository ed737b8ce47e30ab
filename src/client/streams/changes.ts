/** A message type, as far as its bytes are wanted. */
interface Encoder<Message> {
  encode(message: Message): { finish(): Uint8Array };
}

/** Tells what is new from what was told before, thing by thing. */
export class Changes<Message> {
  private readonly told = new Map<string, Uint8Array>();

  constructor(private readonly type: Encoder<Message>) {}

  /** Whether it differs from the last of this id. */
  isNew(id: string, message: Message): boolean {
    const bytes = this.type.encode(message).finish();
    const last = this.told.get(id);
    if (last && areSame(last, bytes)) return false;
    this.told.set(id, bytes);
    return true;
  }

  /** Forgets one; false: it was not there. */
  forget(id: string): boolean {
    return this.told.delete(id);
  }

  /** All that were told. */
  ids(): string[] {
    return [...this.told.keys()];
  }
}

function areSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}
