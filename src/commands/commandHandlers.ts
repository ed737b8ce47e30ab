import type { ActuatorCommandServiceServer, CreateCommandRequest, PreviewEncoderRequest, UpdateCommandRequest } from '../gen/actuator_command/v2/actuator_command_service';
import { checked, type HandlersOf, type References } from '../rpc/handlers';
import { checkCommandMessage, commandPageToMessage, commandToMessage, definitionFromMessage, referencesFromMessage } from './commandMessages';
import type { CommandService } from './commandService';
import type { EncoderPreviews } from './encoderPreview';
import { checkPreviewMessage, previewFromMessage, previewToMessage } from './encoderPreviewMessages';

/** What this room answers of ActuatorCommandService; executions stand in their own. */
export type CommandHandlers = Pick<HandlersOf<ActuatorCommandServiceServer>, 'createCommand' | 'getCommand' | 'listCommands' | 'updateCommand' | 'deleteCommand' | 'previewEncoder'>;

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
    previewEncoder: checked(checkPreviewMessage, async (request: PreviewEncoderRequest, context) => {
      const preview = await previews.preview(context.organizationId, request.id, previewFromMessage(request), context.signal);
      return previewToMessage(preview);
    }, async (request, context) => await previews.checkReferences(context.organizationId, request.id, previewFromMessage(request))),
  };
}

function referenceCheck(commands: CommandService): References<CreateCommandRequest & { commandId?: string }> {
  return async ({ id, commandId, command }, context) => {
    if (!command) return [];
    return await commands.checkReferences(context.organizationId, id, commandId, referencesFromMessage(command));
  };
}
