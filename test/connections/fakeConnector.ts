import type { ConnectionCheck, Connector, OpenConnection, Peer, SendResult } from '../../src/connections/connector';

/** A connector that dials nobody; remembers what it was told. */
export class FakeConnector implements Connector {
  readonly id = 'mqtt';
  /** What was handed to it, in this order. */
  readonly taken: OpenConnection[] = [];
  readonly deleted: string[] = [];
  readonly tried: OpenConnection[] = [];
  /** What a trial finds. */
  found: (signal: AbortSignal) => Promise<readonly ConnectionCheck[]> = async () => [{ name: 'sign_in', outcome: 'ok', message: '' }];
  /** Called with each connection that is taken up. */
  onTaken: (open: OpenConnection) => void = () => {};

  start(): void {}

  connectionChanged(open: OpenConnection): void {
    this.taken.push(open);
    this.onTaken(open);
  }

  connectionDeleted(connectionId: string): void {
    this.deleted.push(connectionId);
  }

  peer(): Peer | undefined {
    return undefined;
  }

  async send(): Promise<SendResult> {
    return 'not_sent';
  }

  takeBack(): boolean {
    return false;
  }

  withdraw(): void {}

  async test(open: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    this.tried.push(open);
    return await this.found(signal);
  }

  async stop(): Promise<void> {}
}
