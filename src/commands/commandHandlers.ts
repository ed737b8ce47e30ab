import type { ActuatorCommandServiceServer, CreateCommandRequest, UpdateCommandRequest } from '../gen/actuator_command/v2/actuator_command_service';
import { checked, type HandlersOf, type References } from '../rpc/handlers';
import { checkCommandMessage, commandPageToMessage, commandToMessage, definitionFromMessage } from './commandMessages';
import type { CommandService } from './commandService';
import type { EncoderPreviews } from './encoderPreview';
import { previewFromMessage, previewToMessage } from './encoderPreviewMessages';

/** What this room answers of ActuatorCommandService; executions stand in their own. */
export type CommandHandlers = Pick<HandlersOf<ActuatorCommandServiceServer>, 'createCommand' | 'getCommand' | 'listCommands' | 'updateCommand' | 'deleteCommand' | 'previewEncoder'>;

// As many as the proto allows: of a list that is too long the rest is not looked at.
const MOST_STATES = 50;

/** Commands of devices, and their encoders. */
export function commandHandlers(commands: CommandService, previews: EncoderPreviews): CommandHandlers {
  return {
    createCommand: checked(checkCommandMessage, async (request: CreateCommandRequest, context) => {
      const command = await commands.create(context.organizationId, request.id, definitionFromMessage(request.command), context.principal.reach?.devices);
      return commandToMessage(command);
    }, referenceCheck(commands)),
    getCommand: async (request, context) => {
      const command = await commands.get(context.organizationId, request.id, request.commandId);
      return commandToMessage(command);
    },
    listCommands: async (request, context) => {
      const page = await commands.list(context.organizationId, request.id, request, context.principal.reach?.commands);
      return commandPageToMessage(page);
    },
    updateCommand: checked(checkCommandMessage, async (request: UpdateCommandRequest, context) => {
      const command = await commands.update(context.organizationId, request.id, request.commandId, definitionFromMessage(request.command), request.etag, context.principal.reach?.devices);
      return commandToMessage(command);
    }, referenceCheck(commands)),
    deleteCommand: async (request, context) => {
      await commands.delete(context.organizationId, request.id, request.commandId, request.etag, context.principal.reach?.devices);
      return {};
    },
    previewEncoder: async (request, context) => {
      const preview = await previews.preview(context.organizationId, request.id, previewFromMessage(request), context.signal);
      return previewToMessage(preview);
    },
  };
}

function referenceCheck(commands: CommandService): References<CreateCommandRequest & { commandId?: string }> {
  return async ({ id, commandId, command }, context) => {
    if (!command) return [];
    const { expectedSensorStates, queryCommandId } = command;
    return await commands.checkReferences(context.organizationId, id, commandId, { expectedSensorStates: expectedSensorStates.slice(0, MOST_STATES), queryCommandId });
  };
}
