import type {
  EncoderPreview as PreviewMessage,
  PreviewEncoderRequest,
} from '../gen/actuator_command/v2/actuator_command_service';
import type { Violation } from '../kernel/errors';
import type { EncoderPreview, PreviewRequest } from './encoderPreview';

/** Validates a preview request without the database: it needs a custom encoder or a profile. */
export function checkPreviewMessage({ customEncoder, encoderProfileId }: PreviewEncoderRequest): Violation[] {
  if (customEncoder !== '' || encoderProfileId !== undefined) return [];
  return [{ field: 'customEncoder', description: 'is required unless encoderProfileId is set' }];
}

/** Reads the preview request. */
export function previewFromMessage(message: PreviewEncoderRequest): PreviewRequest {
  return {
    customEncoder: message.customEncoder || undefined,
    encoderProfileId: message.encoderProfileId,
    template: message.encodedParamsTemplate,
    params: message.params ?? {},
    fPort: message.fPort,
  };
}

/** Converts a preview to its proto message. */
export function previewToMessage({ output, logs, warnings, executionTimeMs, error }: EncoderPreview): PreviewMessage {
  return {
    output: output && outputToMessage(output),
    logs: [...logs],
    warnings: [...warnings],
    executionTimeMs,
    error: error && { code: error.code, message: error.message, lineNumber: error.lineNumber },
  };
}

function outputToMessage({
  bytes,
  fPort,
}: NonNullable<EncoderPreview['output']>): NonNullable<PreviewMessage['output']> {
  const buffer = Buffer.from(bytes);
  return { bytes: [...bytes], bytesHex: buffer.toString('hex'), bytesBase64: buffer.toString('base64'), fPort };
}
