import type { ActuatorCommandServiceServer } from '../gen/actuator_command/v2/actuator_command_service';
import type { HandlersOf } from '../api/pipeline/handlers';
import {
  executionPageToMessage,
  executionToMessage,
  outcomeToMessage,
  submitFromMessage,
  watchFromMessage,
  watchItemToMessage,
} from './executionMessages';
import type { Executions } from './executions';

/** The methods of ActuatorCommandService that this module implements; the commands module implements the others. */
type ExecutionHandlers = Pick<
  HandlersOf<ActuatorCommandServiceServer>,
  'executeCommand' | 'listExecutions' | 'getExecution' | 'cancelExecution' | 'watchExecutions'
>;

/** Handlers for executions of commands. */
export function createExecutionHandlers({ service, watch }: Pick<Executions, 'service' | 'watch'>): ExecutionHandlers {
  return {
    executeCommand: async (request, context) => {
      const outcome = await service.execute(
        context.organizationId,
        submitFromMessage(request, context.requestId),
        context.signal,
        context.principal.resourceScope?.devices,
      );
      return outcomeToMessage(outcome);
    },
    listExecutions: async (request, context) => {
      const page = await service.list(context.organizationId, request.id, request, context.principal.resourceScope);
      return executionPageToMessage(page);
    },
    getExecution: async (request, context) => {
      const { execution, events } = await service.get(context.organizationId, request.executionId);
      return executionToMessage(execution, events);
    },
    cancelExecution: async (request, context) => {
      const execution = await service.cancel(
        context.organizationId,
        request.executionId,
        context.principal.resourceScope,
      );
      return executionToMessage(execution);
    },
    watchExecutions: async function* (request, context) {
      for await (const item of watch.watch(
        context.organizationId,
        { ...watchFromMessage(request), keyScope: context.principal.resourceScope },
        context.signal,
      ))
        yield watchItemToMessage(item);
    },
  };
}
