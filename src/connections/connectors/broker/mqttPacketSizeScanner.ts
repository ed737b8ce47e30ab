/** The maximum number of bytes of the packet length, which follow the byte with the packet type. */
const MAX_LENGTH_BYTES = 4;

/** Determines the length of each packet in an MQTT stream before the packet is complete. */
export class MqttPacketSizeScanner {
  /** The remaining bytes of the packet; 0 while its header is read. */
  private remainingBytes = 0;
  /** Whether the next byte belongs to the length in the header. */
  private isInLength = false;
  /** The length of the packet body as far as it is read, bytes. */
  private length = 0;
  private lengthByteCount = 0;

  /** `onSize`: called with the body length in bytes of each packet as soon as it is known. */
  constructor(private readonly onSize: (bytes: number) => void) {}

  /** Whether a packet is incomplete. */
  get isAmidPacket(): boolean {
    return this.remainingBytes > 0 || this.isInLength;
  }

  /**
   * Scans the next chunk of the stream until `maxPackets` packets have ended. Returns the number of bytes scanned, at
   * most the length of the chunk.
   */
  scan(chunk: Uint8Array, maxPackets: number): number {
    let offset = 0;
    for (let completedPackets = 0; offset < chunk.length && completedPackets < maxPackets;) {
      if (this.remainingBytes > 0) {
        const skipped = Math.min(this.remainingBytes, chunk.length - offset);
        this.remainingBytes -= skipped;
        offset += skipped;
      } else {
        this.addHeaderByte(chunk[offset] ?? 0);
        offset += 1;
      }
      if (!this.isAmidPacket) completedPackets += 1;
    }
    return offset;
  }

  /**
   * Reads a byte of a packet header. The length has 7 bits per byte, lowest first; a set top bit means that more
   * follow.
   */
  private addHeaderByte(byte: number): void {
    if (!this.isInLength) {
      // This byte contains the packet type; the length follows.
      this.isInLength = true;
      this.length = 0;
      this.lengthByteCount = 0;
      return;
    }
    this.length += (byte & 127) * 128 ** this.lengthByteCount;
    this.lengthByteCount += 1;
    if (byte > 127 && this.lengthByteCount < MAX_LENGTH_BYTES) return;
    this.isInLength = false;
    this.remainingBytes = this.length;
    this.onSize(this.length);
  }
}
