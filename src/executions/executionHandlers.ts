import type { ActuatorCommandServiceServer } from '../gen/actuator_command/v2/actuator_command_service';
import type { HandlersOf } from '../rpc/handlers';
import { executionPageToMessage, executionToMessage, outcomeToMessage, submitFromMessage, watchFromMessage, watchItemToMessage } from './executionMessages';
import type { Executions } from './executions';

/** What this room answers of ActuatorCommandService; command definitions stand in their own. */
export type ExecutionHandlers = Pick<HandlersOf<ActuatorCommandServiceServer>, 'executeCommand' | 'listExecutions' | 'getExecution' | 'cancelExecution' | 'watchExecutions'>;

/** Executions of commands. */
export function executionHandlers({ service, watch }: Pick<Executions, 'service' | 'watch'>): ExecutionHandlers {
  return {
    executeCommand: async (request, context) => {
      const outcome = await service.execute(context.organizationId, submitFromMessage(request, context.requestId), context.signal, context.principal.reach?.devices);
      return outcomeToMessage(outcome);
    },
    listExecutions: async (request, context) => {
      const page = await service.list(context.organizationId, request.id, request, context.principal.reach);
      return executionPageToMessage(page);
    },
    getExecution: async (request, context) => {
      const { execution, events } = await service.get(context.organizationId, request.executionId);
      return executionToMessage(execution, events);
    },
    cancelExecution: async (request, context) => {
      const execution = await service.cancel(context.organizationId, request.executionId, context.principal.reach);
      return executionToMessage(execution);
    },
    watchExecutions: async function* (request, context) {
      for await (const item of watch.watch(context.organizationId, { ...watchFromMessage(request), reach: context.principal.reach }, context.signal)) yield watchItemToMessage(item);
    },
  };
}
