// The objects of the HTTP API, as docs/HTTP.md and /openapi.json describe them.

export interface Stream {
  id: number;
  created_at: number;
  name: string;
  size: string;
  messages_count: number;
  topics_count: number;
}

export interface Topic {
  id: number;
  created_at: number;
  name: string;
  size: string;
  message_expiry: number;
  compression_algorithm: string;
  max_topic_size: number;
  replication_factor: number;
  messages_count: number;
  partitions_count: number;
}

export interface StreamDetails extends Stream {
  topics: Topic[];
}

export interface Partition {
  id: number;
  created_at: number;
  segments_count: number;
  current_offset: number;
  size: string;
  messages_count: number;
}

export interface TopicDetails extends Topic {
  partitions: Partition[];
}

export interface Group {
  id: number;
  name: string;
  partitions_count: number;
  members_count: number;
}

export interface ConsumerName {
  consumer: number;
  name: string;
}

export interface GroupDetails extends Group {
  members: { id: number; partitions_count: number; partitions: number[] }[];
}

export interface CommittedOffset {
  partition_id: number;
  current_offset: number;
  stored_offset: number;
}

export interface Client {
  client_id: number;
  user_id: number | null;
  address: string;
  transport: string;
  consumer_groups_count: number;
}

export interface ClientDetails extends Client {
  consumer_groups: { stream_id: number; topic_id: number; group_id: number }[];
}

export const GLOBAL_RIGHTS = [
  "manage_servers",
  "read_servers",
  "manage_users",
  "read_users",
  "manage_streams",
  "read_streams",
  "manage_topics",
  "read_topics",
  "poll_messages",
  "send_messages",
] as const;
export const STREAM_RIGHTS = [
  "manage_stream",
  "read_stream",
  "manage_topics",
  "read_topics",
  "poll_messages",
  "send_messages",
] as const;
export const TOPIC_RIGHTS = ["manage_topic", "read_topic", "poll_messages", "send_messages"] as const;

export type Rights = Record<string, boolean>;
export type StreamRights = Record<(typeof STREAM_RIGHTS)[number], boolean> & {
  topics: Record<string, Rights> | null;
};

export interface Permissions {
  global: Rights;
  streams: Record<string, StreamRights> | null;
}

export interface User {
  id: number;
  created_at: number;
  status: string;
  username: string;
}

export interface UserDetails extends User {
  permissions: Permissions | null;
}

export interface AccessToken {
  name: string;
  expiry_at: number | null;
}

export interface Stats {
  process_id: number;
  cpu_usage: number;
  total_cpu_usage: number;
  memory_usage: string;
  total_memory: string;
  available_memory: string;
  run_time: number;
  start_time: number;
  read_bytes: string;
  written_bytes: string;
  messages_size_bytes: string;
  streams_count: number;
  topics_count: number;
  partitions_count: number;
  segments_count: number;
  messages_count: number;
  clients_count: number;
  consumer_groups_count: number;
  hostname: string;
  os_name: string;
  os_version: string;
  kernel_version: string;
  iggy_server_version: string;
  threads_count: number;
  free_disk_space: string;
  total_disk_space: string;
}

export type SettingValue = boolean | number | string | string[];

export interface Server {
  version: string;
  durability: string;
  protect_unread: string;
  loops: string;
  data: string;
  doors: Record<string, string>;
  warnings: string[];
  settings: { key: string; value: SettingValue; default: SettingValue; is_changed: boolean }[];
}

export interface LogPortion {
  lines: string[];
  mark: string;
  skipped: number;
}
