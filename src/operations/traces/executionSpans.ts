import { ROOT_CONTEXT, SpanKind, trace, type Link, type Span, type Tracer } from '@opentelemetry/api';
import type { ConnectorHub, Downlink, SendResult } from '../../connections';
import type { ExecutionStep } from '../../executions';
import type { CurrentSpan } from './currentSpan';

/** An execution whose end is not known. */
interface Open {
  readonly span: Span;
  state: string;
  /** Since when it is in that state, Unix milliseconds. */
  since: number;
}

/** How commands go out. */
export type Hub = Pick<ConnectorHub, 'peer' | 'send' | 'takeBack' | 'withdraw'>;

const MOST_OPEN = 10_000;

/**
 * A trace for each execution that a traced call made, linked to that call: it may end days after the call. Its spans are the states that it
 * was in and what was sent to its device. Those that the server took up at its start have none.
 */
export class ExecutionSpans {
  private readonly open = new Map<string, Open>();

  constructor(
    private readonly tracer: Tracer,
    private readonly current: CurrentSpan,
  ) {}

  /** Something happened to an execution, and that is on disk. */
  step({ execution, entries, isFinal }: ExecutionStep): void {
    const isNew = entries.some(({ from }) => from === undefined);
    const open = isNew ? this.begin(execution, entries[0]?.time ?? Date.now()) : this.open.get(execution.id);
    if (!open) return;
    for (const { event, to, time } of entries) {
      open.span.addEvent(event, { 'plantroom.execution.state': to }, time);
      if (to !== open.state) this.left(open, to, time);
    }
    if (!isFinal) return;
    open.span.setAttribute('plantroom.execution.state', execution.state);
    open.span.end(open.since);
    this.open.delete(execution.id);
  }

  /** The same hub, whose sending is a part of the execution's trace. */
  hub(hub: Hub): Hub {
    return {
      peer: (connectionId) => hub.peer(connectionId),
      send: async (downlink, session) => await this.send(hub, downlink, session),
      takeBack: (connectionId, executionId) => hub.takeBack(connectionId, executionId),
      withdraw: (connectionId, executionId) => hub.withdraw(connectionId, executionId),
    };
  }

  /** Ends the spans of those that are still under way: the server stops. */
  stop(): void {
    for (const { span, state } of this.open.values()) span.setAttributes({ 'plantroom.execution.state': state, 'plantroom.execution.open': true }).end();
    this.open.clear();
  }

  private begin({ id, state, deviceId, commandId, connectionId }: ExecutionStep['execution'], time: number): Open | undefined {
    const call = this.current.get();
    if (!call?.isRecording()) return undefined;
    const links: Link[] = [{ context: call.spanContext() }];
    const attributes = { 'plantroom.execution_id': id, 'plantroom.device_id': deviceId, 'plantroom.command_id': commandId ?? '', 'plantroom.connection_id': connectionId ?? '' };
    const span = this.tracer.startSpan('execution', { kind: SpanKind.INTERNAL, startTime: time, attributes, links, root: true });
    call.addLink({ context: span.spanContext() });
    const open = { span, state, since: time };
    this.open.set(id, open);
    const [oldest] = this.open.keys();
    if (this.open.size > MOST_OPEN && oldest !== undefined) {
      this.open.get(oldest)?.span.setAttribute('plantroom.execution.open', true).end();
      this.open.delete(oldest);
    }
    return open;
  }

  private left(open: Open, to: string, time: number): void {
    this.tracer.startSpan(open.state, { startTime: open.since }, trace.setSpan(ROOT_CONTEXT, open.span)).end(time);
    open.state = to;
    open.since = time;
  }

  private async send(hub: Hub, downlink: Downlink, session: number): Promise<SendResult> {
    const open = this.open.get(downlink.executionId);
    if (!open) return await hub.send(downlink, session);
    const since = performance.now();
    const sent = (result: string, fault?: string): void => this.current.part(open.span, 'send', performance.now() - since, { 'plantroom.send.result': result, 'plantroom.connection_id': downlink.connectionId }, fault);
    try {
      const result = await hub.send(downlink, session);
      sent(typeof result === 'string' ? result : 'sent');
      return result;
    } catch (error) {
      sent('failed', error instanceof Error ? error.name : 'unknown');
      throw error;
    }
  }
}
