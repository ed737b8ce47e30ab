import { ROOT_CONTEXT, SpanKind, trace, type Link, type Span, type Tracer } from '@opentelemetry/api';
import type { ConnectorHub, Downlink, SendResult } from '../../connections';
import type { ExecutionStep } from '../../executions';
import type { ActiveSpan } from './activeSpan';

/** An execution that is not final. */
interface OpenExecution {
  readonly span: Span;
  state: string;
  /** When it entered that state, Unix milliseconds. */
  enteredAt: number;
}

/** The part of the connector hub that sends commands. */
export type CommandHub = Pick<ConnectorHub, 'peer' | 'connectSoon' | 'send' | 'cancelUnsent' | 'cancelAtGateway'>;

const MAX_OPEN_SPANS = 10_000;

/**
 * A trace for each execution of a traced call, linked to that call, because it may finish days after it. Its spans are
 * the states of the execution and what was sent to its device. Executions that the server resumed at its start have no
 * trace.
 */
export class ExecutionSpans {
  private readonly openExecutionById = new Map<string, OpenExecution>();

  constructor(
    private readonly tracer: Tracer,
    private readonly activeSpan: ActiveSpan,
  ) {}

  /** Records a committed event of an execution. */
  recordStep({ execution, entries, isFinal }: ExecutionStep): void {
    // The first entry of an execution has no earlier state.
    const isNew = entries.some(({ from }) => from === undefined);
    const openExecution = isNew
      ? this.startTrace(execution, entries[0]?.time ?? Date.now())
      : this.openExecutionById.get(execution.id);
    if (!openExecution) return;
    for (const { event, to, time } of entries) {
      openExecution.span.addEvent(event, { 'plantroom.execution.state': to }, time);
      if (to !== openExecution.state) this.changeState(openExecution, to, time);
    }
    if (!isFinal) return;
    openExecution.span.setAttribute('plantroom.execution.state', execution.state);
    openExecution.span.end(openExecution.enteredAt);
    this.openExecutionById.delete(execution.id);
  }

  /** Wraps the hub so that its sends are recorded in the trace of the execution. */
  traceHub(hub: CommandHub): CommandHub {
    return {
      peer: (connectionId) => hub.peer(connectionId),
      connectSoon: (connectionId) => hub.connectSoon(connectionId),
      send: async (downlink, session) => await this.sendTraced(hub, downlink, session),
      cancelUnsent: (connectionId, executionId) => hub.cancelUnsent(connectionId, executionId),
      cancelAtGateway: (connectionId, executionId) => hub.cancelAtGateway(connectionId, executionId),
    };
  }

  /** Closes the spans of all executions in progress when the server stops. */
  stop(): void {
    for (const { span, state } of this.openExecutionById.values())
      span.setAttributes({ 'plantroom.execution.state': state, 'plantroom.execution.open': true }).end();
    this.openExecutionById.clear();
  }

  /**
   * Starts the trace of a new execution, linked in both directions to the call that requested it. Undefined: that call
   * is not traced. If too many traces are open, the oldest one is closed, so that executions that wait for months need
   * no memory.
   */
  private startTrace(
    { id, state, deviceId, commandId, connectionId }: ExecutionStep['execution'],
    time: number,
  ): OpenExecution | undefined {
    const call = this.activeSpan.getCurrent();
    if (!call?.isRecording()) return undefined;
    const links: Link[] = [{ context: call.spanContext() }];
    const attributes = {
      'plantroom.execution_id': id,
      'plantroom.device_id': deviceId,
      'plantroom.command_id': commandId ?? '',
      'plantroom.connection_id': connectionId ?? '',
    };
    const span = this.tracer.startSpan('execution', {
      kind: SpanKind.INTERNAL,
      startTime: time,
      attributes,
      links,
      root: true,
    });
    call.addLink({ context: span.spanContext() });
    const openExecution = { span, state, enteredAt: time };
    this.openExecutionById.set(id, openExecution);
    const [oldestId] = this.openExecutionById.keys(); // a map keeps its entries in the order of insertion
    if (this.openExecutionById.size > MAX_OPEN_SPANS && oldestId !== undefined) {
      this.openExecutionById.get(oldestId)?.span.setAttribute('plantroom.execution.open', true).end();
      this.openExecutionById.delete(oldestId);
    }
    return openExecution;
  }

  /** Records the span of the current state, which ends at `time`, and enters the state `to`. */
  private changeState(openExecution: OpenExecution, to: string, time: number): void {
    this.tracer
      .startSpan(
        openExecution.state,
        { startTime: openExecution.enteredAt },
        trace.setSpan(ROOT_CONTEXT, openExecution.span),
      )
      .end(time);
    openExecution.state = to;
    openExecution.enteredAt = time;
  }

  /** Sends a downlink and records the duration and the result in the trace of its execution. */
  private async sendTraced(hub: CommandHub, downlink: Downlink, session: number): Promise<SendResult> {
    const openExecution = this.openExecutionById.get(downlink.executionId);
    if (!openExecution) return await hub.send(downlink, session);
    const startedAt = performance.now();
    const recordSend = (result: SendResult | 'failed', errorKind?: string): void =>
      this.activeSpan.recordChild(openExecution.span, {
        name: 'send',
        durationMs: performance.now() - startedAt,
        attributes: { 'plantroom.send.result': result, 'plantroom.connection_id': downlink.connectionId },
        errorKind,
      });
    try {
      const result = await hub.send(downlink, session);
      recordSend(result);
      return result;
    } catch (error) {
      recordSend('failed', error instanceof Error ? error.name : 'unknown');
      throw error;
    }
  }
}
