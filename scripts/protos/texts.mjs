// The README of the proto bundle, and the buf configurations that generate stubs.
import { parse, stringify } from 'yaml';

/**
 * Converts the buf.yaml of the repository for the bundle, whose root contains the protos. Third-party protos are
 * ignored.
 */
export function createBufYaml(repositoryBufYaml) {
  const { version, lint, breaking } = parse(repositoryBufYaml);
  const ignored = Object.entries(lint.ignore_only)
    .map(([rule, paths]) => [rule, paths.map((path) => path.replace(/^proto\//, '')).filter((path) => path !== 'grpc')])
    .filter(([, paths]) => paths.length > 0);
  const google = { ignore: ['google'] };
  const text = stringify(
    {
      version,
      modules: [{ path: '.' }],
      lint: { ...lint, ...google, ignore_only: Object.fromEntries(ignored) },
      breaking: { ...breaking, ...google },
    },
    { aliasDuplicateObjects: false },
  );
  return `# buf lint and buf build work in this folder; buf breaking --against another bundle compares two versions.\n${text}`;
}

const inputs = [{ directory: '.', exclude_paths: ['google'] }];
const excludeGoogle = (option) => [{ file_option: option, path: 'google' }];

/** buf templates for the languages whose stubs need a package path. */
export const bufTemplates = {
  'buf.gen.go.yaml': `# Replace example.com/yours/gen with the import path of the folder gen in your module.\n${stringify(
    {
      version: 'v2',
      managed: {
        enabled: true,
        disable: excludeGoogle('go_package'),
        override: [{ file_option: 'go_package_prefix', value: 'example.com/yours/gen' }],
      },
      plugins: ['protoc-gen-go', 'protoc-gen-go-grpc'].map((local) => ({
        local,
        out: 'gen',
        opt: 'paths=source_relative',
      })),
      inputs,
    },
  )}`,
  'buf.gen.java.yaml': `# Java cannot import types without a package, so the only proto without one gets a package here.\n${stringify(
    {
      version: 'v2',
      managed: {
        enabled: true,
        disable: excludeGoogle('java_package'),
        override: [
          { file_option: 'java_package_prefix', value: 'com.example.plantroom' },
          { file_option: 'java_package', path: 'organizations_service.proto', value: 'com.example.plantroom' },
        ],
      },
      plugins: [
        { protoc_builtin: 'java', out: 'gen' },
        { local: 'protoc-gen-grpc-java', out: 'gen' },
      ],
      inputs,
    },
  )}`,
};

const OURS = "$(find . -name '*.proto' -not -path './google/*')";

/** Returns the README of the bundle. */
export function createReadme(version) {
  return `# Protos of Plantroom ${version}

Everything that you need to build a client in any language: the protos of all services, their imports, and the compiled
descriptors (\`plantroom.binpb\`, a \`google.protobuf.FileDescriptorSet\` with comments and imports). \`VERSION\` is the version of the server
that they were released with; clients also work with older and newer servers. For TypeScript, use the package \`plantroom-client\` instead.

Run \`mkdir gen\` and then one of these commands in this folder. It generates the stubs in \`gen\`.

| language | command |
|---|---|
| Python | \`pip install grpcio-tools googleapis-common-protos\`, then \`python -m grpc_tools.protoc -I . --python_out=gen --pyi_out=gen --grpc_python_out=gen ${OURS}\` |
| Go | \`buf generate --template buf.gen.go.yaml\`; set the import path of your module in that file first. Requires protoc-gen-go and protoc-gen-go-grpc |
| Java | \`buf generate --template buf.gen.java.yaml\`; set your package in that file first. Requires protoc and protoc-gen-grpc-java |
| C# | \`protoc -I . --csharp_out=gen --grpc_out=gen --plugin=protoc-gen-grpc=$(command -v grpc_csharp_plugin) ${OURS}\`, or Grpc.Tools in the project |
| no stubs | \`grpcurl -protoset plantroom.binpb ...\`; libraries for dynamic messages read \`plantroom.binpb\` |

The stubs of \`google/api\` and \`google/rpc\` are available as packages (Python: googleapis-common-protos, Go: google.golang.org/genproto, Java:
proto-google-common-protos, C#: Google.Api.CommonProtos): do not generate them. The protos and stubs of health checks and reflection
are part of gRPC.

Send the metadata \`x-api-key\` and \`x-organization-id\` with every call. Verify the certificate of the server with its \`tls/ca.pem\`.
`;
}
