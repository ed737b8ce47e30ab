import type { Execution } from '../execution';
import type { ExecutionEvent } from '../machine/executionEvent';
import { ConnectionDispatcher, type DispatchOptions } from './connectionDispatcher';

/** The event for a command that provably never left the server. */
const NOT_SENT: ExecutionEvent = { kind: 'known_undelivered' };

/**
 * Sends enqueued executions: first in, first out per physical device, one at a time. It has one ConnectionDispatcher
 * per connection. Without an attached peer (gateway or broker) there is nothing to do; a peer that attaches calls
 * `ready`.
 */
export class Dispatcher {
  private readonly dispatchers = new Map<string, ConnectionDispatcher>();
  private stopped = false;

  constructor(private readonly options: DispatchOptions) {}

  /** Reports that there may be something to send for this physical device. */
  wake(organizationId: string, connectionId: string, physicalDeviceId: string): void {
    if (!this.stopped && this.options.hub.peer(connectionId))
      this.getOrCreate(organizationId, connectionId).wake(physicalDeviceId);
  }

  /** Reports that the connection may have capacity, so that its dispatcher looks for executions to send. */
  ready(organizationId: string, connectionId: string): void {
    if (!this.stopped && this.options.hub.peer(connectionId)) this.getOrCreate(organizationId, connectionId).wake();
  }

  /**
   * Cancels a command in transit that has not left the server. Returns true if it provably never will; false if it may
   * have left the server or is not in transit.
   */
  cancelUnsent({ id, state, connectionId }: Execution): boolean {
    if (state !== 'in_transit' || connectionId === undefined) return false;
    const isStillClaimed = this.dispatchers.get(connectionId)?.cancelUnsent(id) ?? false;
    return isStillClaimed || this.options.hub.cancelUnsent(connectionId, id);
  }

  /**
   * Cancels a command as `cancelUnsent` does before an event ends its execution. Returns the events to apply: that the
   * command was not sent, if that is certain, and the event.
   */
  cancelBefore(event: ExecutionEvent, execution: Execution): ExecutionEvent[] {
    return this.cancelUnsent(execution) ? [NOT_SENT, event] : [event];
  }

  /**
   * Resolves when everything claimed for the closed attachment is sent or back in its queue, then removes the
   * dispatcher of the connection. Call it only while no peer is attached.
   */
  async finishConnection(connectionId: string): Promise<void> {
    const dispatcher = this.dispatchers.get(connectionId);
    await dispatcher?.stop();
    if (this.dispatchers.get(connectionId) === dispatcher) this.dispatchers.delete(connectionId);
  }

  /** Resolves when nothing is being sent any more. */
  async stop(): Promise<void> {
    this.stopped = true;
    await Promise.all([...this.dispatchers.values()].map(async (dispatcher) => await dispatcher.stop()));
  }

  /** Returns the dispatcher of a connection; creates it if there is none. */
  private getOrCreate(organizationId: string, connectionId: string): ConnectionDispatcher {
    const dispatcher =
      this.dispatchers.get(connectionId) ?? new ConnectionDispatcher(this.options, organizationId, connectionId);
    this.dispatchers.set(connectionId, dispatcher);
    return dispatcher;
  }
}
