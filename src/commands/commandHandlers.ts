import type {
  ActuatorCommandServiceServer,
  Command as CommandMessage,
  CreateCommandRequest,
  PreviewEncoderRequest,
  UpdateCommandRequest,
} from '../gen/actuator_command/v2/actuator_command_service';
import type { Sandbox } from '../codec';
import { withCheck, type HandlersOf, type References } from '../api/pipeline/handlers';
import type { Command } from './command';
import {
  checkCommandMessage,
  commandPageToMessage,
  commandToMessage,
  definitionFromMessage,
  referencesFromMessage,
} from './commandMessages';
import type { CommandService } from './commandService';
import type { EncoderPreviewService } from './encoderPreview';
import { findEncoderWarnings } from './encoderWarnings';
import { checkPreviewMessage, previewFromMessage, previewToMessage } from './encoderPreviewMessages';

/** The methods of ActuatorCommandService that this module implements; the executions module implements the others. */
type CommandHandlers = Pick<
  HandlersOf<ActuatorCommandServiceServer>,
  'createCommand' | 'getCommand' | 'listCommands' | 'updateCommand' | 'deleteCommand' | 'previewEncoder'
>;

/** Handlers for commands and encoder previews. */
export function commandHandlers(
  commands: CommandService,
  previews: EncoderPreviewService,
  compiler: Pick<Sandbox, 'compile'>,
): CommandHandlers {
  const storedToMessage = async (command: Command, signal: AbortSignal): Promise<CommandMessage> =>
    commandToMessage(command, [
      ...(await findEncoderWarnings(compiler, command, signal)),
      ...(await commands.listWarnings(command)),
    ]);
  return {
    createCommand: withCheck(
      checkCommandMessage,
      async (request: CreateCommandRequest, context) => {
        const command = await commands.create(
          context.organizationId,
          request.id,
          definitionFromMessage(request.command),
          context.principal.resourceScope?.devices,
        );
        return await storedToMessage(command, context.signal);
      },
      createReferenceCheck(commands),
    ),
    getCommand: async (request, context) => {
      const command = await commands.get(context.organizationId, request.id, request.commandId);
      return commandToMessage(command);
    },
    listCommands: async (request, context) => {
      const page = await commands.list(
        context.organizationId,
        request.id,
        request,
        context.principal.resourceScope?.commands,
      );
      return commandPageToMessage(page);
    },
    updateCommand: withCheck(
      checkCommandMessage,
      async (request: UpdateCommandRequest, context) => {
        const command = await commands.update(
          context.organizationId,
          request.id,
          request.commandId,
          definitionFromMessage(request.command),
          request.etag,
          context.principal.resourceScope?.devices,
        );
        return await storedToMessage(command, context.signal);
      },
      createReferenceCheck(commands),
    ),
    deleteCommand: async (request, context) => {
      await commands.delete(
        context.organizationId,
        request.id,
        request.commandId,
        request.etag,
        context.principal.resourceScope?.devices,
      );
      return {};
    },
    previewEncoder: withCheck(
      checkPreviewMessage,
      async (request: PreviewEncoderRequest, context) => {
        const preview = await previews.preview(
          context.organizationId,
          request.id,
          previewFromMessage(request),
          context.signal,
        );
        return previewToMessage(preview);
      },
      async (request, context) =>
        await previews.checkReferences(context.organizationId, request.id, previewFromMessage(request)),
    ),
  };
}

/** Creates the check of the sensors, commands and profiles that the definition in a request refers to. */
function createReferenceCheck(commands: CommandService): References<CreateCommandRequest & { commandId?: string }> {
  return async ({ id, commandId, command }, context) => {
    if (!command) return [];
    return await commands.checkReferences(context.organizationId, id, commandId, referencesFromMessage(command));
  };
}
