import { DispatchLine, type DispatchOptions } from './dispatchLine';

/** Sends what is enqueued: one line for each connection, first in first out for each physical device, one at a time. */
export class Dispatcher {
  private readonly lines = new Map<string, DispatchLine>();
  private stopped = false;

  constructor(private readonly options: DispatchOptions) {}

  /** There may be something to send for this physical device. */
  wake(organizationId: string, connectionId: string, physicalDeviceId: string): void {
    // While nobody is attached there is nothing to know: whoever comes says `ready`.
    if (!this.stopped && this.options.hub.peer(connectionId)) this.line(organizationId, connectionId).wake(physicalDeviceId);
  }

  /** There may be room on this connection. */
  ready(organizationId: string, connectionId: string): void {
    if (!this.stopped && this.options.hub.peer(connectionId)) this.line(organizationId, connectionId).wake();
  }

  /** Takes back what was claimed and is not handed to the connection yet; true: it provably has not left. */
  takeBack(connectionId: string, executionId: string): boolean {
    return this.lines.get(connectionId)?.takeBack(executionId) ?? false;
  }

  /** Resolves when all that was given to the attachment that ended is either on its way or back in its queue; then its line is no more. Only while nobody is attached. */
  async settled(connectionId: string): Promise<void> {
    const line = this.lines.get(connectionId);
    await line?.stop();
    if (this.lines.get(connectionId) === line) this.lines.delete(connectionId);
  }

  /** Resolves when nothing is on its way out any more. */
  async stop(): Promise<void> {
    this.stopped = true;
    await Promise.all([...this.lines.values()].map(async (line) => await line.stop()));
  }

  private line(organizationId: string, connectionId: string): DispatchLine {
    let line = this.lines.get(connectionId);
    if (!line) this.lines.set(connectionId, (line = new DispatchLine(this.options, organizationId, connectionId)));
    return line;
  }
}
