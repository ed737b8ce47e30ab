const LENGTH_BYTES = 4;

/** Reads along with a stream of MQTT how long each packet is, before all of it is there. */
export class PacketSizes {
  /** Bytes of the packet that are still to come; undefined: they are being read. */
  private left = 0;
  private isInLength = false;
  private length = 0;
  private digits = 0;

  /** `onSize`: called with the bytes of each packet's body when they are known. */
  constructor(private readonly onSize: (bytes: number) => void) {}

  /** The next piece of the stream. */
  add(piece: Uint8Array): void {
    let at = 0;
    while (at < piece.length) {
      if (this.left > 0) {
        const skipped = Math.min(this.left, piece.length - at);
        this.left -= skipped;
        at += skipped;
      } else {
        this.addHeaderByte(piece[at] ?? 0);
        at += 1;
      }
    }
  }

  private addHeaderByte(byte: number): void {
    if (!this.isInLength) {
      [this.isInLength, this.length, this.digits] = [true, 0, 0]; // the kind of packet
      return;
    }
    this.length += (byte & 127) * 128 ** this.digits;
    this.digits += 1;
    if (byte > 127 && this.digits < LENGTH_BYTES) return;
    this.isInLength = false;
    this.left = this.length;
    this.onSize(this.length);
  }
}
